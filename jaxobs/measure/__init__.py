"""Measurements on demand, in a process that has JAX: `cost()`, `roofline()` and `jaxobs calibrate`."""
