"""Collector `nvidia`: reads the NVIDIA devices of the training process from their management library (NVML)."""
