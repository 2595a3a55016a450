"""Collector `host`: what the training process takes of its host and of its container, and what the host has left."""

from jaxobs_plugins.collectors.host.collector import HostCollector

__all__ = ["HostCollector"]
