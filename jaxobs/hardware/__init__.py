"""What one device can do: peaks with where each came from, the data sheet, and calibrations that were kept."""
