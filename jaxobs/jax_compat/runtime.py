"""JAX as it runs in this process: its backend, listeners and profiler, and whose frames are the user's."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable
from typing import Any


def backend_exists() -> bool:
    """Whether JAX has created a backend. Without the private name: False, and devices stay unknown."""
    check = getattr(sys.modules.get("jax._src.xla_bridge"), "backends_are_initialized", None)
    return bool(check()) if callable(check) else False


def coordinator_address() -> str:
    """What `jax.distributed.initialize()` was given or has found, the same for all processes of a job; empty without."""
    state = getattr(sys.modules.get("jax._src.distributed"), "global_state", None)
    return str(getattr(state, "coordinator_address", None) or "")


def persistent_cache_is_on() -> bool:
    """Whether JAX is configured to keep executables on disk, and where. Public names; without them: False."""
    config = getattr(sys.modules.get("jax"), "config", None)
    settings = ("jax_compilation_cache_dir", "jax_enable_compilation_cache")
    return all(getattr(config, name, None) for name in settings)


def is_listening(listener: Callable[..., Any]) -> bool:
    """Whether a duration listener is still registered. Without the private name: True."""
    listeners = getattr(sys.modules.get("jax._src.monitoring"), "get_event_duration_listeners", None)
    # Not `in`, which would call `__eq__` of listeners of others.
    return any(found is listener for found in listeners()) if callable(listeners) else True


def unregister_listeners(event: Any, duration: Any, scalar: Any) -> None:
    """Unregister listeners. The names are public from 0.8, private before; without either they stay and do nothing."""
    monitoring = sys.modules.get("jax._src.monitoring")
    for kind, listener in (("event", event), ("event_duration", duration), ("scalar", scalar)):
        private = getattr(monitoring, f"_unregister_{kind}_listener_by_callback", None)
        remove = getattr(monitoring, f"unregister_{kind}_listener", private)
        if remove is not None:
            with contextlib.suppress(AssertionError, ValueError):  # the listeners were cleared before
                remove(listener)


def profiler_module() -> Any:
    """The module of jaxlib with `ProfilerSession` and `ProfileOptions`. Without it: no profiler windows of ours.

    `start_trace` and all other users in JAX look `ProfilerSession` up in it at each use, also in 0.7.2 and 0.8.0.
    """
    return getattr(sys.modules.get("jax._src.lib"), "_profiler", None)


def is_to_be_written(session: object) -> bool:
    """Whether `jax.profiler` will write the trace of this session of jaxlib's once it has taken it into memory.

    By `_profile_state.session`, the `jax.profiler.ProfileSession` under way (0.12). False if the trace stays in
    memory, where JAX has not made the session, and without the name: the trace is then not read.
    """
    state = getattr(sys.modules.get("jax._src.profiler"), "_profile_state", None)
    public = getattr(state, "session", None)
    return getattr(public, "_raw_session", None) is session and getattr(public, "log_dir", None) is not None


@functools.cache
def leave_out(file: str) -> None:
    """Let JAX no longer take frames of this file for the user's, but those around them. JAX must be imported.

    Done by `jax._src.source_info_util.register_exclusion`. Without it JAX's messages name a line of ours in place of the
    user's.
    """
    register = getattr(sys.modules.get("jax._src.source_info_util"), "register_exclusion", None)
    if callable(register):
        register(file)


@functools.cache
def own_packages() -> tuple[str, ...]:
    """Beginnings of the paths of files of JAX and the probe, whose frames are not the user's. JAX must be imported."""
    packages = ("jax", "jaxlib", "jaxobs.jax_compat", "jaxobs.measure", "jaxobs.probe")
    files = [getattr(sys.modules.get(name), "__file__", None) for name in packages]
    folders = [file.removesuffix("__init__.py") for file in files if file]
    return (*folders, "<frozen ")
