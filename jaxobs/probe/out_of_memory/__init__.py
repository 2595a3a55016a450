"""The report that is written when memory runs out: its evidence, its summary and its files."""
