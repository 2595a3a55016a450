"""A snapshot: what is shown of all rooms at one moment, without figures that contradict each other."""
