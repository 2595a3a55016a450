"""What runs in which element type: as written, as compiled, and as the device executes it."""
