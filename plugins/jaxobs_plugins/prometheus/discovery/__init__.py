"""How others find this process: the `file_sd` file for Prometheus, and those of the ranks beside it."""
