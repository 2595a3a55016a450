"""Collector `nvidia`: the NVIDIA devices that the training process uses, as their management library (NVML) sees them."""

from jaxobs_plugins.collectors.nvidia.collector import NvidiaCollector

__all__ = ["NvidiaCollector"]
