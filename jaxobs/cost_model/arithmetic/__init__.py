"""Counts the FLOPs of an instruction: elementwise work, products, convolutions and factorisations."""
