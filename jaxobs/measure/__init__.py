"""Measuring where JAX is, on demand: `cost()`, `roofline()` and `jaxobs calibrate`."""
