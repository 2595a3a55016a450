"""Watched functions: what each call runs, when the device was done with it, and how long what watches them is kept."""
