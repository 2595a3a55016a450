"""What a terminal shows of a snapshot: styled words and a table of ranks. Pure: colours belong to the terminal."""
