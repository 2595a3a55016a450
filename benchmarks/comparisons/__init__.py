"""Pairs of runs made to differ in one thing, and what `jaxobs compare` says of them."""
