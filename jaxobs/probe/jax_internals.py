"""Every private name of JAX that jaxobs touches, each with the versions it was seen in and what happens without it.

Seen in 0.6.2, 0.8.2 and 0.10.2 where nothing else is said. Each function answers None (or does nothing) where the name
is missing, so that a future JAX costs a feature and never the job.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

FRAMES_TO_SEARCH = 8
"""The listener's caller frames that are looked at; the frame looked for was the third or fourth in every version."""


def backend_exists() -> bool:
    """Whether JAX has made a backend. Without the name: False, and devices stay unknown."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    check = getattr(bridge, "backends_are_initialized", None)
    return bool(check()) if callable(check) else False


def profiler_state() -> Any:
    """The object whose `profile_session` is not None while `jax.profiler` traces. Without it: no step annotations."""
    return getattr(sys.modules.get("jax._src.profiler"), "_profile_state", None)


def new_executable(frame: FrameType | None) -> Any:
    """The `LoadedExecutable` that JAX has just made: a local variable above the listener of `backend_compile`.

    None where the compile failed or the variable is not there: the executable's cost is then absent.
    """
    for caller in _callers(frame):
        if caller.f_code.co_name == "_cached_compilation":
            executable = caller.f_locals.get("xla_executable")
            # `hlo_modules` tells the executable from whatever else a future version keeps under that name.
            return executable if hasattr(executable, "hlo_modules") else None
    return None


def traced_function(frame: FrameType | None) -> Any:
    """The function whose trace a listener was told of. None: then nothing is taken for an eager primitive."""
    for caller in _callers(frame):
        if caller.f_code.co_filename.endswith(("pjit.py", "partial_eval.py", "api.py")):
            function = caller.f_locals.get("fun")
            if function is not None:
                return getattr(function, "f", function)  # 0.6 and 0.8 wrap it in a WrappedFun
    return None


def lowered_by_jax(frame: FrameType | None) -> bool | None:
    """Whether what is being lowered is a function of JAX's own (`jnp.multiply`), by the source its jaxpr remembers.

    Under `jax.grad` outside jit such functions are compiled without a trace event. None where nothing is remembered.
    """
    for caller in _callers(frame):
        closed = caller.f_locals.get("closed_jaxpr")
        source = getattr(getattr(getattr(closed, "jaxpr", None), "debug_info", None), "func_src_info", None)
        if type(source) is str:  # "multiply at /…/jax/_src/numpy/ufuncs.py:1253"
            package = getattr(sys.modules.get("jax"), "__file__", None) or ""
            return source.rpartition(" at ")[2].startswith(package.removesuffix("__init__.py") or "\0")
    return None


def executables_alive(function: Any) -> int | None:
    """How many executables a jitted function has by now. None for anything else, and without the name."""
    count = getattr(function, "_cache_size", None)
    return int(count()) if callable(count) else None


def is_listening(listener: Callable[..., Any]) -> bool:
    """Whether a duration listener is still registered. Without the name: assumed so."""
    monitoring = sys.modules.get("jax._src.monitoring")
    listeners = getattr(monitoring, "get_event_duration_listeners", None)
    return listener in listeners() if callable(listeners) else True


def unregister_listeners(event: Any, duration: Any, scalar: Any) -> None:
    """Take listeners out. Public from 0.8, private names before; without either they stay and do nothing."""
    monitoring = sys.modules.get("jax._src.monitoring")
    for listener, names in (
        (event, ("unregister_event_listener", "_unregister_event_listener_by_callback")),
        (
            duration,
            ("unregister_event_duration_listener", "_unregister_event_duration_listener_by_callback"),
        ),
        (scalar, ("unregister_scalar_listener", "_unregister_scalar_listener_by_callback")),
    ):
        remove = next((found for name in names if (found := getattr(monitoring, name, None))), None)
        if remove is not None:
            with contextlib.suppress(AssertionError, ValueError):  # somebody cleared the listeners before us
                remove(listener)


def _callers(frame: FrameType | None) -> list[FrameType]:
    callers: list[FrameType] = []
    while frame is not None and len(callers) < FRAMES_TO_SEARCH:
        callers.append(frame)
        frame = frame.f_back
    return callers
