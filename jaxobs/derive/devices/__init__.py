"""The devices with their peaks, and the clocks and utilisation that the hardware reports."""
