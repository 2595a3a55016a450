"""FLOPs of an instruction: products, convolutions, factorisations, and their sum."""
