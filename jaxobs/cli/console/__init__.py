"""What commands read and write alike: options, paths of records, tables, and the terminal."""
