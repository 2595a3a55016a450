"""Probe `compile`: reports each compile with its phases, its executable, and why it was needed."""
