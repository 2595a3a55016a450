"""What a terminal shows of a snapshot: lines of styled words, and a table of ranks. Pure: colours belong to the terminal."""
