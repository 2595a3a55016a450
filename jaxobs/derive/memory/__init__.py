"""Memory of the devices and of the process: what holds it, and when it runs out."""
