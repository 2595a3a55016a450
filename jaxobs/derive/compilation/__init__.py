"""Compilations and recompilations: how many, how long, why, and what the persistent cache saved."""
