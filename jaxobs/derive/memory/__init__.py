"""Memory of the devices and of the process: how much is in use, what holds it, and when it runs out."""
