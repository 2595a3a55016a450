"""A snapshot: the document that all views write together, and what in it contradicts itself."""
