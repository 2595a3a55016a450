"""Loops and conditionals of `jax.lax` that run outside any jit: each is then one compiled program of its own."""

from __future__ import annotations

from types import FrameType, FunctionType
from typing import Any

PRIMITIVES = {
    "scan": "scan", "while": "while_loop", "cond": "cond", "custom_linear_solve": "custom_linear_solve",
}  # fmt: skip
"""JAX's primitives with whole functions in them, and the public function behind each."""

FUNCTIONS = frozenset({*PRIMITIVES.values(), "fori_loop", "map", "switch"})
"""Public functions that end in one of those. `associative_scan` is none: it is run operation by operation."""

FILE = "/jax/_src/lax/control_flow/"
"""Where they are written (0.6.2, 0.8.2 and 0.10.2)."""

DISPATCH = "/jax/_src/dispatch.py"
"""Where a primitive is run outside jit, by its function `apply_primitive` (in the same versions)."""

FRAMES = 60
"""Frames above the listener of a compile; the call of `scan` is about the twelfth, that of `map` a few above."""


def control_flow_outside_jit(primitive: str, frame: FrameType | None) -> str | None:
    """The function of `jax.lax` that was called outside jit, by its name and that of the primitive being compiled.

    `frame` is that of a listener of a compile. None for any other primitive, inside jit, and where JAX's files are called
    differently: it then is an eager primitive like others.
    """
    name = PRIMITIVES.get(primitive)
    if name is None:
        return None
    applied = False
    for _ in range(FRAMES):
        if frame is None:
            break
        file, called = frame.f_code.co_filename, frame.f_code.co_name
        if not applied:
            applied = called == "apply_primitive" and file.endswith(DISPATCH)
        elif "/jax/_src/" not in file:
            break  # the caller: what is above it has called something else
        elif called in FUNCTIONS and FILE in file:
            name = called
        frame = frame.f_back
    return name if applied else None


def plain_parameters(function: Any) -> dict[str, int] | None:
    """The lengths and switches that a primitive outside jit is compiled for: `length`, `reverse`, `unroll`, ….

    `function` is what JAX jits to run the primitive: a closure over its parameters (same versions). None for another.
    """
    if type(function) is not FunctionType or not function.__code__.co_filename.endswith(DISPATCH):
        return None
    if "params" not in function.__code__.co_freevars:
        return None
    parameters = (function.__closure__ or ())[function.__code__.co_freevars.index("params")].cell_contents
    if type(parameters) is not dict:
        return None
    return {name: value for name, value in parameters.items() if type(value) in (int, bool)}
