"""Runs a jitted function once more, equation by equation, and follows each value that is not finite to where it began.

Calls are entered. Loops and branches are run as a whole first, and entered only where something not finite comes out;
of a loop, only the iterations in which that is so. A value that is not finite and is masked away, such as the `-inf` of
an attention mask, is not followed further. Loaded only where JAX is, by what has such a value.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxobs.jax_compat.arrays import users_line_of
from jaxobs.jax_compat.runtime import own_packages
from jaxobs.model.clock import monotonic
from jaxobs.vocabulary.units import digits

CALLS = frozenset({
    "jit", "pjit", "closed_call", "core_call", "core_closed_call", "remat", "remat2", "checkpoint", "custom_jvp_call",
    "custom_vjp_call", "custom_vjp_call_jaxpr", "custom_lin",
})  # fmt: skip
"""Primitives that only call what is in them, by their names in JAX 0.6 to 0.12."""

INNER = ("jaxpr", "call_jaxpr", "fun_jaxpr")
"""The parameters that hold it."""

SHOWN = 3
"""Operands that are described."""


class Origin(NamedTuple):
    """Where a value first was not finite: an equation, or an argument of the function by its place among the leaves."""

    word: str
    """`nan` or `inf`."""
    operands: tuple[str, ...]
    argument: int | None = None
    equation: str = ""
    infinite: Origin | None = None
    """For a NaN that came of an infinity: where that began."""


class OutOfTimeError(Exception):
    """No loop is entered any more. A class of its own: a signal handler of the user's may raise TimeoutError."""


class Value(NamedTuple):
    """A value, and where it began not to be finite; None where it is finite."""

    array: Any
    origin: Origin | None = None


def described(array: Any) -> str:
    """Type, shape and range of a value, such as `float32[8] from 0 to 2.5, 1 of 8 not finite`."""
    text = f"{array.dtype}[{','.join(map(str, array.shape))}]"
    if array.size == 0 or not jnp.issubdtype(array.dtype, jnp.number):
        return text
    finite = jnp.isfinite(array)
    count = int(finite.sum())
    if count and not jnp.iscomplexobj(array):
        kept = jnp.where(finite, array, jnp.nan)
        least, most = digits(float(jnp.nanmin(kept))), digits(float(jnp.nanmax(kept)))
        text += f" {least}" if least == most else f" from {least} to {most}"
    return text + (f", {array.size - count} of {array.size} not finite" if count < array.size else "")


def not_finite(array: Any) -> str:
    """`nan`, `inf`, or empty for what is finite."""
    if not jnp.issubdtype(getattr(array, "dtype", int), jnp.inexact) or bool(jnp.isfinite(array).all()):
        return ""
    return "nan" if bool(jnp.isnan(array).any()) else "inf"


def first_origin(values: Sequence[Value]) -> Origin | None:
    """Where the first of these began not to be finite: a NaN before an infinity."""
    origins = [value.origin for value in values if value.origin is not None]
    return next((origin for origin in origins if origin.word == "nan"), next(iter(origins), None))


class Evaluation:
    """One run of traced functions. After `seconds` no loop is entered any more: it is named as a whole."""

    def __init__(self, seconds: float) -> None:
        self._deadline = monotonic() + seconds
        self._compiled: dict[int, Any] = {}
        self._site = ""
        """The line that called the function of JAX's own whose equations are run; else empty."""

    def outputs(self, closed: Any, leaves: Sequence[Any]) -> list[Value]:
        """The results of a closed jaxpr for these arguments. Raises what JAX raises."""
        given = []
        for place, array in enumerate(map(jnp.asarray, leaves)):
            word = not_finite(array)
            given.append(Value(array, Origin(word, (described(array),), place) if word else None))
        return self._run(closed, given)

    def _run(self, closed: Any, given: Sequence[Value]) -> list[Value]:
        """The results of a jaxpr. What no later equation needs is let go of."""
        jaxpr, consts = getattr(closed, "jaxpr", closed), getattr(closed, "consts", ())
        known = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*map(Value, consts), *given), strict=True))

        def read(atoms: Sequence[Any]) -> list[Value]:
            return [Value(jnp.asarray(a.val, a.aval.dtype)) if hasattr(a, "val") else known[a] for a in atoms]

        last = {
            atom: at for at, eqn in enumerate(jaxpr.eqns) for atom in eqn.invars if not hasattr(atom, "val")
        }
        last |= {atom: len(jaxpr.eqns) for atom in jaxpr.outvars if not hasattr(atom, "val")}
        for at, eqn in enumerate(jaxpr.eqns):
            known.update(zip(eqn.outvars, self._equation(eqn, read(eqn.invars)), strict=True))
            for atom in (*eqn.invars, *eqn.outvars):
                if not hasattr(atom, "val") and last.get(atom, 0) <= at:
                    known.pop(atom, None)
        return read(jaxpr.outvars)

    def _equation(self, eqn: Any, taken: list[Value]) -> list[Value]:
        name = eqn.primitive.name
        inner = next((eqn.params[key] for key in INNER if key in eqn.params), None)
        if name in CALLS and inner is not None and len(getattr(inner, "jaxpr", inner).invars) == len(taken):
            return self._call(eqn, inner, taken)
        bound = eqn.primitive.get_bind_params(eqn.params)
        functions, params = bound if isinstance(bound, tuple) else ((), bound)  # since JAX 0.12 no functions
        with eqn.ctx.manager:
            made = eqn.primitive.bind(*functions, *(value.array for value in taken), **params)
        arrays = list(made) if eqn.primitive.multiple_results else [made]
        words = list(map(not_finite, arrays))
        if any(words) and name in ENTERED and eqn.params.get("length", 1):
            with contextlib.suppress(OutOfTimeError):
                return ENTERED[name](self, eqn.params, taken)
        origins = (self._origin(word, eqn, taken) if word else None for word in words)
        return list(map(Value, arrays, origins))

    def _call(self, eqn: Any, inner: Any, taken: list[Value]) -> list[Value]:
        """The results of a call. Of a function of JAX's own the lines are those of its first call, wherever that was."""
        about = getattr(getattr(inner, "jaxpr", inner), "debug_info", None)
        is_of_jax = str(getattr(about, "func_src_info", "")).partition(" at ")[2].startswith(own_packages())
        before, self._site = self._site, self._site or (_line(eqn) if is_of_jax else "")
        try:
            return self._run(inner, taken)
        finally:
            self._site = before

    def _turn(self, closed: Any, given: list[Value]) -> list[Value]:
        """One iteration: compiled as a whole, and by its equations if something comes out that is not finite."""
        if monotonic() > self._deadline:
            raise OutOfTimeError
        if id(closed) not in self._compiled:  # by JAX's own names: public ones may be watched
            whole = sys.modules["jax._src.core"].jaxpr_as_fun(closed)
            self._compiled[id(closed)] = sys.modules["jax._src.api"].jit(whole)
        arrays = self._compiled[id(closed)](*(value.array for value in given))
        return self._run(closed, given) if any(map(not_finite, arrays)) else list(map(Value, arrays))

    def scan(self, params: dict[str, Any], taken: list[Value]) -> list[Value]:
        """The results of a scan, by its iterations."""
        if "ft_in" in params:  # since JAX 0.12
            consts, carry, rows = map(list, params["ft_in"].update(taken).unpack())
        else:
            first, second = params["num_consts"], params["num_consts"] + params["num_carry"]
            consts, carry, rows = taken[:first], taken[first:second], taken[second:]
        order, made = range(params["length"]), dict[int, list[Value]]()
        for at in reversed(order) if params["reverse"] else order:
            parts = [(row.array[at], row.origin) for row in rows]
            row = [Value(array, origin if origin and not_finite(array) else None) for array, origin in parts]
            found = self._turn(params["jaxpr"], [*consts, *carry, *row])
            carry, made[at] = found[: len(carry)], found[len(carry) :]
        columns = zip(*(made[at] for at in order), strict=True)
        stacked = [Value(jnp.stack([value.array for value in each]), first_origin(each)) for each in columns]
        return [*carry, *stacked]

    def while_loop(self, params: dict[str, Any], taken: list[Value]) -> list[Value]:
        """The results of a while loop, by its iterations."""
        first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        asked, consts, carry = taken[:first], taken[first:second], taken[second:]
        while bool(self._run(params["cond_jaxpr"], [*asked, *carry])[0].array):
            carry = self._turn(params["body_jaxpr"], [*consts, *carry])
        return carry

    def cond(self, params: dict[str, Any], taken: list[Value]) -> list[Value]:
        """The results of the branch that is taken."""
        return self._run(params["branches"][int(taken[0].array)], taken[1:])  # which JAX keeps within bounds

    def _origin(self, word: str, eqn: Any, taken: list[Value]) -> Origin:
        """Where the result of an equation began not to be finite: there, unless it took a value that was so already."""
        earlier = first_origin(taken)
        if earlier is not None and (earlier.word == "nan" or word == "inf"):
            return earlier
        operands = tuple(described(value.array) for value in taken[:SHOWN] if hasattr(value.array, "dtype"))
        gradient = ", in its gradient" if "transpose(" in str(eqn.source_info.name_stack) else ""
        equation = f"`{eqn.primitive.name}` at {self._site or _line(eqn)}{gradient}"
        return Origin(word, operands, None, equation, earlier)


ENTERED: dict[str, Callable[[Evaluation, dict[str, Any], list[Value]], list[Value]]] = {
    "scan": Evaluation.scan, "while": Evaluation.while_loop, "cond": Evaluation.cond,
}  # fmt: skip


def _line(eqn: Any) -> str:
    return users_line_of(eqn.source_info.traceback) or "an unknown line"


def arguments_of(traced: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[Any, Any]] | None:
    """The path and the value of each leaf that is no static argument; None where that is not to be told."""
    leaves = jax.tree_util.tree_flatten_with_path((args, kwargs))[0]
    if len(leaves) != len(traced.jaxpr.in_avals):
        leaves = [(path, leaf) for path, leaf in leaves if hasattr(leaf, "dtype")]
    return leaves if len(leaves) == len(traced.jaxpr.in_avals) else None
