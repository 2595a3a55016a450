"""Finds the user's function behind `jax.pmap`, by private names of JAX.

From 0.8 on `pmap` wraps the user's function in functions of its own, hands them to `jit`, and listeners are given their
names (`_fun`, before 0.9 `call_wrapped`); 0.6 compiled it apart from `jit`. Without these names a pmapped function has
the name that JAX gives it.
"""

from __future__ import annotations

import functools
from types import FrameType
from typing import Any

from jaxobs.jax_compat.compiling import closure
from jaxobs.plugin.frames import callers

FRAMES_TO_SEARCH = 32
"""Most frames searched above the listener. The pmapped call was the seventh to the twentieth, the latter in
`jax.grad`."""

BEGINNING = ("_src/monitoring.py", "_src/dispatch.py")
"""Files of JAX whose frames come directly above the listener's."""

BETWEEN = (
    *BEGINNING, "_src/pjit.py", "_src/traceback_util.py", "_src/linear_util.py", "_src/profiler.py", "_src/stages.py",
    "_src/core.py", "_src/compiler.py", "_src/interpreters/pxla.py", "_src/interpreters/ad.py",
    "_src/interpreters/batching.py",
)  # fmt: skip
"""The only files of frames between `pmap` and what it compiles itself; what it merely runs is below other files."""

ENTRANCES = {
    "_src/pmap.py": ("pmap.<locals>.wrapped", "pmap.<locals>.lower"),
    "_src/api.py": ("_cpp_pmap.<locals>.cache_miss", "_cpp_mapped_trace", "_cpp_mapped_lower"),
}
"""Functions of JAX that a call of a pmapped function enters, by file."""

UNNAMED = "<unnamed function>"
"""What JAX calls the result of `pmap` where the function has no name."""


def call_of_pmap(frame: FrameType | None) -> FrameType | None:
    """The frame of the call that is being traced, lowered or compiled, if it is of a pmapped function; else None."""
    begun = False
    for caller in callers(frame, FRAMES_TO_SEARCH):
        code = caller.f_code
        file = code.co_filename
        if any(file.endswith(end) and code.co_qualname in names for end, names in ENTRANCES.items()):
            return caller
        between = file.endswith(BETWEEN)
        begun = begun or file.endswith(BEGINNING)
        if begun and not between:
            return None
    return None


def mapped_function(call: FrameType) -> Any:
    """The user's function behind the call; None if it cannot be found."""
    found = call.f_locals
    prepare = found.get("prepare_pmap_fn") or getattr(found.get("pmap_f"), "_prepare_pmap", None)
    if prepare is not None:  # up to 0.7
        return prepare.args[0]
    kept = closure(found.get("infer_params"))
    wrapped = kept.get("wrapped_fun")  # since 0.9
    return getattr(wrapped, "f", None) or kept.get("f") or kept.get("fun")


def mapped_name(call: FrameType) -> str | None:
    """The name that JAX gives the pmapped function; None if the function cannot be found."""
    function = mapped_function(call)
    if function is None:
        return None
    while issubclass(type(function), functools.partial):
        function = function.func
    name = getattr(function, "__name__", UNNAMED)
    return name if type(name) is str else UNNAMED
