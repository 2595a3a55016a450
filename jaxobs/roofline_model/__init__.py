"""The least time that work can take at a device's peaks, and how near a measured time came to it.

Not called `roofline`: that is the function of the package's public interface.
"""
