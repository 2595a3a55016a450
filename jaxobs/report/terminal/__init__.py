"""A snapshot as styled words for a terminal, and a table of ranks. Pure: the terminal decides on colours."""
