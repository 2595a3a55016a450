"""Finds the user's function behind `jax.pmap`, by private names of JAX.

From 0.8 on `pmap` wraps the user's function in functions of its own, hands them to `jit`, and listeners are given their
names (`_fun`, before 0.9 `call_wrapped`); 0.6 compiled it apart from `jit`. Without these names a pmapped function has
the name that JAX gives it, and its recompiles have no cause.
"""

from __future__ import annotations

import functools
import sys
from itertools import takewhile
from types import FrameType
from typing import Any

from jaxobs.jax_compat.compiling import JitCall, closure
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

WITH_AVALS = ("_infer_params", "_infer_params_internal", "_trace_for_jit", "get_pmap_jaxpr")

OPTIONS = (
    "axis_name", "in_axes", "out_axes", "out_axes_flat", "static_broadcasted_tuple", "donate_tuple", "in_devices",
    "devices", "backend", "backend_name", "axis_size",
)  # fmt: skip
"""Arguments of `jax.pmap`, by the names of its variables for them. Its trees are left out: they differ at each call."""

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
    kept = _kept(call)
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


def mapped_call(frame: FrameType | None) -> JitCall | None:
    """`compiling.call_being_traced` for pmapped functions. None for any other, and where names are missing."""
    call = call_of_pmap(frame)
    if call is None:
        return None
    below = takewhile(lambda caller: caller is not call, callers(frame, FRAMES_TO_SEARCH))
    variables = (caller.f_locals for caller in below if caller.f_code.co_name in WITH_AVALS)
    avals = next((each["avals"] for each in variables if "avals" in each), None)
    if avals is None:
        return None
    found, kept = call.f_locals, _kept(call)
    args = found.get("args", ())
    # Since 0.9 it is in the closure that wraps the user's function.
    wrapper = getattr(getattr(found.get("cached"), "pmapped", None), "__wrapped__", None)
    tree = found.get("in_tree") or getattr(found.get("p"), "in_tree", None) or closure(wrapper).get("in_tree")
    if tree is None:
        return None
    positional, by_keyword = tree.children()
    static = tuple(sorted(kept.get("static_broadcasted_tuple", ())))
    function = mapped_function(call)
    names = by_keyword.node_data()[1] if by_keyword.node_data() is not None else ()
    return JitCall(
        function,
        (("mapped by", "jax.pmap"), *((option, kept[option]) for option in OPTIONS if option in kept)),
        _parameters(function),
        len(args),
        static,
        [args[position] for position in static if position < len(args)],
        (),
        tuple(names),
        [*positional.children(), *by_keyword.children()],
        tuple(avals),
        None,
    )


def _kept(call: FrameType) -> dict[str, Any]:
    """The arguments of `pmap`, by the names of JAX's variables for them."""
    found = call.f_locals
    mapped = found.get("pmap_f")
    prepare = found.get("prepare_pmap_fn") or getattr(mapped, "_prepare_pmap", None)
    if prepare is not None:  # up to 0.7
        code = prepare.func.__code__
        names = code.co_varnames[: code.co_argcount]
        axis = found.get("axis_name", getattr(mapped, "_axis_name", None))
        return {**dict(zip(names, prepare.args, strict=False)), "axis_name": axis}
    return closure(found.get("infer_params"))


def _parameters(function: Any) -> Any:
    signature = getattr(sys.modules.get("jax._src.api_util"), "fun_signature", None)
    return signature(function) if callable(signature) else None
