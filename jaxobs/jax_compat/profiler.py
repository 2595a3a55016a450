"""JAX's own profiler: its state, and the module of jaxlib behind it."""

from __future__ import annotations

import sys
from typing import Any


def profiler_state() -> Any:
    """The object whose `profile_session` is set while `jax.profiler` traces. Without it: no step annotations."""
    return getattr(sys.modules.get("jax._src.profiler"), "_profile_state", None)


def profiler_module() -> Any:
    """The module of jaxlib with `ProfilerSession` and `ProfileOptions`. Without it: no profiler windows of ours.

    `start_trace` and all other users in JAX look `ProfilerSession` up in it at each use, also in 0.7.2 and 0.8.0.
    """
    return getattr(sys.modules.get("jax._src.lib"), "_profiler", None)
