"""JAX's own profiler: the module of jaxlib behind it, and where a session's trace goes."""

from __future__ import annotations

import sys
from typing import Any


def profiler_module() -> Any:
    """The module of jaxlib with `ProfilerSession` and `ProfileOptions`. Without it: no profiler windows of ours.

    `start_trace` and all other users in JAX look `ProfilerSession` up in it at each use, also in 0.7.2 and 0.8.0.
    """
    return getattr(sys.modules.get("jax._src.lib"), "_profiler", None)


def log_directory(session: object) -> str | None:
    """Where `jax.profiler` will write the trace of a session of jaxlib's that it ends by taking it into memory.

    By `_profile_state.session`, the `jax.profiler.ProfileSession` under way (0.12). None where it stays in memory,
    where JAX has not made the session, and without the name: its trace is then not read.
    """
    state = getattr(sys.modules.get("jax._src.profiler"), "_profile_state", None)
    public = getattr(state, "session", None)
    directory = getattr(public, "log_dir", None) if getattr(public, "_raw_session", None) is session else None
    return directory if type(directory) is str else None
