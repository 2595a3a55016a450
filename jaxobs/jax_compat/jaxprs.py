"""Reads jaxprs: how many equations there are, and which arrays they have captured, by the lines that use them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jaxobs.model.source_files import is_installed


def equations(jaxpr: Any, known: dict[int, int]) -> int:
    """Equations of a jaxpr, with those of inner ones at each place that uses them; `known`: counts by id."""
    number = known.get(id(jaxpr))
    if number is None:
        number = sum(1 + sum(equations(each, known) for each in _inner(equation)) for equation in jaxpr.eqns)
        known[id(jaxpr)] = number
    return number


def _inner(equation: Any) -> list[Any]:
    """The jaxprs in an equation's parameters, closed ones as they are."""
    values = (each if isinstance(each, (list, tuple)) else (each,) for each in equation.params.values())
    return [each for value in values for each in value if hasattr(each, "eqns")]


def captured(jaxpr: Any, min_bytes: int, seen: set[int]) -> Iterator[tuple[Any, str]]:
    """Each large constant of a jaxpr and of those in it, with the line of the first equation that uses it."""
    if id(jaxpr) in seen:
        return
    seen.add(id(jaxpr))
    plain = getattr(jaxpr, "jaxpr", jaxpr)
    values = dict(zip(plain.constvars, getattr(jaxpr, "consts", ()), strict=False))
    for equation in plain.eqns:
        for variable in equation.invars:
            # A literal carries its value; no variable equals one, which cannot be hashed.
            value = variable.val if hasattr(variable, "val") else values.pop(variable, None)
            value = getattr(value, "val", value)  # in 0.8 NumPy's arrays are in an object of JAX's
            if getattr(value, "nbytes", 0) >= min_bytes:
                yield value, _source(equation)
        for inner in _inner(equation):
            yield from captured(inner, min_bytes, seen)


def _source(equation: Any) -> str:
    """The `file:line` of the user's program that made an equation; empty where JAX has recorded none."""
    frames = getattr(getattr(equation.source_info, "traceback", None), "frames", ())
    mine = (frame for frame in frames if not is_installed(frame.file_name))
    return next((f"{frame.file_name}:{frame.line_num}" for frame in mine), "")
