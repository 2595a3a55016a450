"""Collector `nvidia`: reads the NVIDIA devices of the training process from their management library (NVML)."""

from jaxobs_plugins.collectors.nvidia.collector import NvidiaCollector

__all__ = ["NvidiaCollector"]
