"""JAX's own profiler: the module of jaxlib behind it, and whether a session's trace goes to a file."""

from __future__ import annotations

import sys
from typing import Any


def profiler_module() -> Any:
    """The module of jaxlib with `ProfilerSession` and `ProfileOptions`. Without it: no profiler windows of ours.

    `start_trace` and all other users in JAX look `ProfilerSession` up in it at each use, also in 0.7.2 and 0.8.0.
    """
    return getattr(sys.modules.get("jax._src.lib"), "_profiler", None)


def is_to_be_written(session: object) -> bool:
    """Whether `jax.profiler` will write the trace of this session of jaxlib's once it has taken it into memory.

    By `_profile_state.session`, the `jax.profiler.ProfileSession` under way (0.12). False where the trace stays in
    memory, where JAX has not made the session, and without the name: the trace is then not read.
    """
    state = getattr(sys.modules.get("jax._src.profiler"), "_profile_state", None)
    public = getattr(state, "session", None)
    return getattr(public, "_raw_session", None) is session and getattr(public, "log_dir", None) is not None
