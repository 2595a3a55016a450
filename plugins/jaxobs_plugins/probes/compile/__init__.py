"""Probe `compile`: reports each compile with its phases, its executable, and why it was needed."""

from jaxobs_plugins.probes.compile.probe import CompileProbe

__all__ = ["CompileProbe"]
