"""Collector `host`: measures what the training process uses of its host and container, and what the host has left."""

from jaxobs_plugins.collectors.host.collector import HostCollector

__all__ = ["HostCollector"]
