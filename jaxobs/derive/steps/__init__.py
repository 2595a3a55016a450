"""Steps as columns and as a log."""
