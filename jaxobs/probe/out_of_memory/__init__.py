"""The report that is left when memory runs out: gathered, summed up and written in time."""
