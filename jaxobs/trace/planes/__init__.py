"""The planes of a trace: one reader for each kind of device, and what they have in common."""
