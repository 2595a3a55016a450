"""The roofline: the least time that work can take at a device's peaks, and how near a measured time came."""
