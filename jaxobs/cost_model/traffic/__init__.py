"""Counts the bytes that an instruction moves: to and from device memory, also in fusions, and over links."""
