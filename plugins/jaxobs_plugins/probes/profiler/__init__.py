"""Probe `profiler`: makes short windows of JAX's profiler within a budget, and reads the user's own sessions."""

from jaxobs_plugins.probes.profiler.probe import ProfilerProbe

__all__ = ["ProfilerProbe"]
