"""The devices with their peaks, and what the hardware says of itself."""
