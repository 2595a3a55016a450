"""What jaxobs says on a GPU, held against truths that are not its own: `python -m benchmarks.gpu_check`."""
