"""The training of `jaxobs demo`, which uses jaxobs as any training script would, only through its public names."""
