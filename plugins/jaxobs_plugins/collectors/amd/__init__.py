"""Collector `amd`: the AMD devices of the training process, as AMD SMI (the package `amdsmi` of ROCm) sees them.

Written by the interface of amdsmi 7.0 and AMD's description of it; it has not been run on a device. Temperatures are
left out: whether the call gives degrees or thousandths of them is not told alike in all releases.
"""

from jaxobs_plugins.collectors.amd.collector import AmdCollector

__all__ = ["AmdCollector"]
