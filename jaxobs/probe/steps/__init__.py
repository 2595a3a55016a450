"""Loops, steps and phases as the user marks them, and the values that the user records."""
