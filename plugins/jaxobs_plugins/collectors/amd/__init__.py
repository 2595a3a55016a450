"""Collector `amd`: reads the AMD devices of the training process from AMD SMI (the package `amdsmi` of ROCm).

Written against the interface of amdsmi 7.0 and AMD's description of it, but never run on a device. Temperatures are
left out, because releases disagree on whether the call returns degrees or thousandths of degrees.
"""

from jaxobs_plugins.collectors.amd.collector import AmdCollector

__all__ = ["AmdCollector"]
