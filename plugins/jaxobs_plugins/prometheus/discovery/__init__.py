"""Discovery by `file_sd` files: this process's own for Prometheus, and those of the other ranks on this host."""
