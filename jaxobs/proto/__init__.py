"""The messages of XLA and its profiler that are read: their field numbers stand here and nowhere else."""
