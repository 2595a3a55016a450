"""What profiler windows say: of a loop, of its steps, and of single operations."""
