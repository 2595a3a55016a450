"""Loops and conditionals of `jax.lax` outside any jit, where each compiles to a program of its own."""

from __future__ import annotations

from types import FrameType, FunctionType
from typing import Any

from jaxobs.plugin.frames import callers

PRIMITIVES = {
    "scan": "scan", "while": "while_loop", "cond": "cond", "custom_linear_solve": "custom_linear_solve",
}  # fmt: skip
"""JAX's primitives that contain whole functions, and the public function behind each."""

FUNCTIONS = frozenset({*PRIMITIVES.values(), "fori_loop", "map", "switch"})
"""Public functions that bind one of those primitives. `associative_scan` does not: it runs operation by operation."""

FILE = "/jax/_src/lax/control_flow/"
"""Part of the path of the files that define them."""

DISPATCH = "/jax/_src/dispatch.py"
"""The file whose function `apply_primitive` runs a primitive outside jit."""

FRAMES = 60
"""Most frames searched above the listener of a compile; `scan` is about the twelfth, `map` a few above."""


def control_flow_outside_jit(primitive: str, frame: FrameType | None) -> str | None:
    """The name of the `jax.lax` function that was called outside jit and is being compiled as `primitive`.

    `frame` is that of the listener of the compile. None for any other primitive, inside jit, and where JAX's files have
    other names: the program then counts as an eager primitive like any other.
    """
    name = PRIMITIVES.get(primitive)
    if name is None:
        return None
    applied = False
    for caller in callers(frame, FRAMES):
        file, called = caller.f_code.co_filename, caller.f_code.co_name
        if not applied:
            applied = called == "apply_primitive" and file.endswith(DISPATCH)
        elif "/jax/_src/" not in file:
            break  # the caller of JAX: frames above it belong to other calls
        elif called in FUNCTIONS and FILE in file:
            name = called
    return name if applied else None


def plain_parameters(function: Any) -> dict[str, int] | None:
    """The integers and switches that a primitive outside jit is compiled for: `length`, `reverse`, `unroll`, ….

    `function` is what JAX jits to run the primitive, a closure over its parameters. None for any other.
    """
    if type(function) is not FunctionType or not function.__code__.co_filename.endswith(DISPATCH):
        return None
    if "params" not in function.__code__.co_freevars:
        return None
    parameters = (function.__closure__ or ())[function.__code__.co_freevars.index("params")].cell_contents
    if type(parameters) is not dict:
        return None
    return {name: value for name, value in parameters.items() if type(value) in (int, bool)}
