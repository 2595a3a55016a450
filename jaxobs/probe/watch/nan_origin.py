"""Says where a value began not to be finite, by running the last calls once more. Loaded when there is such a value."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import jax

from jaxobs.jax_compat.arrays import is_askable
from jaxobs.jax_compat.equations import (
    Evaluation,
    Origin,
    Value,
    arguments_of,
    described,
    first_origin,
    not_finite,
)
from jaxobs.model.contents import last_name
from jaxobs.plugin.guard import Suppressed
from jaxobs.probe.watch.locate_nan import Call
from jaxobs.probe.watch.watchable import name_of

SECONDS = 60.0
"""Seconds for which the iterations of loops are followed."""

Leaves = list[tuple[Any, Any]]

NOTHING_KEPT = "no watched function was called before: obs.watch() the one that computes it"
ALL_FINITE = "run once more, equation by equation, all that the watched functions returned is finite"
DONATED = "its arguments were donated and are gone: to find where it began, run without donate_argnums or donate_argnames"


def where_it_began(calls: Sequence[Call], value: Any) -> str:
    """Where a value began not to be finite, in words; or why that cannot be told. `calls`: the newest first.

    From call to call an array is followed by its identity. Where that is lost, as in a program that updates its weights
    outside of what is watched, the results of the call before that are not finite are followed.
    """
    wanted, text, evaluation = value, ALL_FINITE if calls else NOTHING_KEPT, Evaluation(SECONDS)
    came_in: Origin | None = None
    while calls:
        call = next((call for call in calls if call.place_of(wanted) is not None), calls[0])
        calls = [each for each in calls if each.number < call.number]
        found = _rerun(call, evaluation)
        if isinstance(found, str):
            return f"{text}. The call before cannot be looked into: {found}" if came_in else found
        values, leaves = found
        place = call.place_of(wanted)
        origin = first_origin(values) if place is None else values[place].origin
        if origin is None or (came_in is not None and origin.word != came_in.word):
            continue
        text = ". Before that, ".join(_said(origin, call, leaves))
        came_in = origin.infinite or origin
        if came_in.argument is None:
            return text
        wanted = leaves[came_in.argument][1]
    return text


def _rerun(call: Call, evaluation: Evaluation) -> tuple[list[Value], Leaves] | str:
    """The results of a call, run once more, and its arguments; or why it is not run."""
    function = f"`{name_of(call.function)}` cannot be run once more: "
    if not hasattr(call.function, "trace"):
        return f"{function}it is no function of jax.jit"
    args, kwargs = jax.tree.unflatten(call.structure, call.leaves)
    traced = call.function.trace(*args, **kwargs)
    leaves = arguments_of(traced, args, kwargs)
    if leaves is None:
        return f"{function}its static arguments could not be told from the others"
    if traced.jaxpr.effects:
        return f"{function}it prints or calls back, which would happen twice"
    alive = [(path, leaf) for path, leaf in leaves if not (is_askable(leaf) and leaf.is_deleted())]
    if not all(getattr(leaf, "is_fully_addressable", True) for _, leaf in alive):
        return f"{function}its arrays are on several hosts"
    if len(alive) < len(leaves):
        arrays = [(path, jax.numpy.asarray(leaf)) for path, leaf in alive]
        bad = [f"`{_name(call, path)}` ({described(array)})" for path, array in arrays if not_finite(array)]
        return function + DONATED + (f". Of those left, not finite: {', '.join(bad)}" if bad else "")
    return evaluation.outputs(traced.jaxpr, [leaf for _, leaf in leaves]), leaves


def _said(origin: Origin, call: Call, leaves: Leaves) -> Iterator[str]:
    """An origin in words, and that of the infinity that it came of."""
    function, operands = name_of(call.function), "; ".join(origin.operands)
    if origin.argument is not None:
        name, at = _name(call, leaves[origin.argument][0]), call.called_at
        where = f", called at {last_name(at.file)}:{at.line}" if at is not None else ""
        yield f"{origin.word} came in with the argument `{name}` of `{function}`{where}: {operands}"
        return
    yield f"{origin.word} first came out of {origin.equation}, in `{function}`; it was given {operands}"
    if origin.infinite is not None:
        yield from _said(origin.infinite, call, leaves)


def _name(call: Call, path: Any) -> str:
    """The name of an argument, such as `batch['x']`, by the path of a leaf of (args, kwargs)."""
    place, rest = path[1], jax.tree_util.keystr(path[2:])
    if path[0].idx == 1:
        return f"{place.key}{rest}"
    with Suppressed(Exception):  # not every callable has a signature
        return f"{list(inspect.signature(call.function).parameters)[place.idx]}{rest}"
    return f"args[{place.idx}]{rest}"
