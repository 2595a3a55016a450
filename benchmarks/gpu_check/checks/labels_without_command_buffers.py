"""The loops that keep the device busy, with every operation launched by itself."""

from __future__ import annotations

import os

from benchmarks.gpu_check.checks.labels import run_loops
from benchmarks.gpu_check.figures import Findings

OFF = "--xla_gpu_enable_command_buffer="
"""An empty set of what goes into command buffers, as XLA's own error advises where they do not fit (jaxlib 0.11.2)."""


def check(told: Findings) -> None:
    """Only a GPU has command buffers."""
    if not told.on_gpu:
        told.unmeasured("loops without command buffers", "only a GPU has command buffers")
        return
    flags = f"{os.environ.get('XLA_FLAGS', '')} {OFF}".strip()
    run_loops(told, ("latency", "compute", "memory"), {"XLA_FLAGS": flags})
