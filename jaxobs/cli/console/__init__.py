"""Input and output that commands share: options, paths of records, tables, and the terminal."""
