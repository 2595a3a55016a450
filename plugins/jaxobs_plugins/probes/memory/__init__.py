"""Probe `memory`: samples device memory, the memory of the process, and which arrays hold it."""

from jaxobs_plugins.probes.memory.probe import MemoryProbe

__all__ = ["MemoryProbe"]
