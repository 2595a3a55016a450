"""A snapshot: what is shown of all rooms at one moment, without what contradicts itself."""
