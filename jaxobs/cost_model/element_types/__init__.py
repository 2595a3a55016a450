"""Finds the element types of products: as written in the program, as compiled, and as the device executes them."""
