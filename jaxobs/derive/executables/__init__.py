"""Executables: which there are, how often and how long each ran, and what it must do."""
