"""The built-in collectors, which run in the agent; each reads one source of metrics."""
