"""The agent's own process: receives events, folds them, makes snapshots and exports them. Never imports JAX."""
