"""What `jaxobs demo` trains, and how: it uses jaxobs as any training script would, through its public names alone."""
