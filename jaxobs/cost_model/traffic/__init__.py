"""Bytes that an instruction moves: to device memory, in fusions, and over links."""
