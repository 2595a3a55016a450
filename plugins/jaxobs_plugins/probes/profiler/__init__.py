"""Probe `profiler`: makes short windows of JAX's profiler within a budget, and reads the user's own sessions."""
