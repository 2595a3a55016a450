"""Who this process is, from the environment alone: asking JAX would make its backend."""
