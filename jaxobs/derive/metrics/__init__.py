"""The metrics that the core derives, and their values within the limit on series."""
