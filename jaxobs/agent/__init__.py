"""What runs in the agent's own process: receive, fold, snapshot, export. Never imports JAX."""
