"""What profiler windows show of loops, their steps, and single operations."""
