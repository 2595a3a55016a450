"""What JAX tells of its arrays: which are alive, where they lie, and whether they are computed."""
