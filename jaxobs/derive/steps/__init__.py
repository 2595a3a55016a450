"""Steps as columns and as a log, and stretches of time counted once."""
