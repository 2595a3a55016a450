"""Explains why a function was compiled again: how its signature differs from those it was compiled for before.

Pure functions on plain tuples. JAX compiles anew when anything in its cache key is new. The explanation is the
difference from the nearest earlier signature, the one with the fewest differences, so that it names what changed.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from jaxobs.vocabulary.words import CAUSES

ABSENT: Final = "absent"


class Value(NamedTuple):
    """A value in JAX's cache key. `identity` tells objects of the same text apart; 0 where the text alone decides."""

    text: str
    identity: int = 0


class Leaf(NamedTuple):
    """The abstract value of an array argument. `sharding` is that of its type, which explicit sharding mode adds."""

    shape: tuple[int | str, ...]
    dtype: str
    weak_type: bool
    sharding: str = ""

    def text(self) -> str:
        """Type and shape, such as `float32[8,16]`; a weakly typed array comes from a Python scalar."""
        dimensions = ",".join(map(str, self.shape))
        weak = " (weak type)" if self.weak_type else ""
        return f"{self.dtype}[{dimensions}]{weak}" + (f" {self.sharding}" if self.sharding else "")


class Signature(NamedTuple):
    """The parts of JAX's cache key that a function was compiled for.

    `function` is the number of the function object, and `partial` that of the `functools.partial` around it, whose
    arguments are among the `statics`; 0 where there is none. `bindings` say how each argument was passed, `structure`
    holds (path, container) for each container among the arguments, `names` and `leaves` the arrays in them. `shardings`
    is in the order of `leaves`, and empty where it was not seen. `complete` is False
    where arrays or containers were left out.
    """

    function: int
    function_text: str
    options: tuple[tuple[str, Value], ...]
    context: tuple[tuple[str, Value], ...]
    bindings: tuple[tuple[str, Value], ...]
    statics: tuple[tuple[str, Value], ...]
    structure: tuple[tuple[str, Value], ...]
    names: tuple[str, ...]
    leaves: tuple[Leaf, ...]
    shardings: tuple[str, ...]
    complete: bool = True
    partial: int = 0


class Difference(NamedTuple):
    """One difference between two signatures.

    `certain`: the values differ. Otherwise only the objects are known to differ, because comparing their values would
    call code of the user's.
    """

    cause: str
    argument: str | None
    old: str
    new: str
    certain: bool = True


class Explanation(NamedTuple):
    """The cause of a recompile, the first argument that changed, and the number of differences."""

    cause: str
    argument: str | None
    old: str | None
    new: str | None
    differences: int


UNEXPLAINED: Final = Explanation("other", None, None, None, 0)


def explain(new: Signature, earlier: Iterable[Signature]) -> Explanation:
    """Name what differs between `new` and the nearest of the `earlier` signatures, which are given oldest first.

    Among equally near ones the latest counts. Objects that may or may not be equal are named only where nothing else
    differs: if they are equal, they did not cause the recompile.
    """
    nearest: Signature | None = None
    least = (0, 0)
    for old in earlier:
        away = distance(old, new)
        if nearest is None or away <= least:
            nearest, least = old, away
    certain = bool(least[0])
    found = [] if nearest is None else [
        difference for difference in differences(nearest, new) if difference.certain == certain
    ]  # fmt: skip
    if not found:
        return UNEXPLAINED
    first = min(found, key=lambda difference: CAUSES.index(difference.cause))
    return Explanation(first.cause, first.argument, first.old, first.new, len(found))


def distance(old: Signature, new: Signature) -> tuple[int, int]:
    """The number of certain differences, then the number of those between objects that may be equal.

    Counts what `differences` yields without building it, because each of thousands of arrays may have changed.
    """
    others = list(_other_differences(old, new))
    certain = sum(difference.certain for difference in others)
    if old.names == new.names:
        shardings = _shardings(old, new)
        if shardings[0] == shardings[1]:
            arrays = sum(map(operator.ne, old.leaves, new.leaves))
        else:
            arrays = sum(
                first != second or here != there
                for first, second, here, there in zip(old.leaves, new.leaves, *shardings, strict=False)
            )
    else:
        arrays = sum(1 for _ in _leaves(old, new))
    return certain + arrays, len(others) - certain


def differences(old: Signature, new: Signature) -> Iterator[Difference]:
    """All differences, by kind, and within each kind in the order of the arguments."""
    yield from _other_differences(old, new)
    yield from _leaves(old, new)


def _other_differences(old: Signature, new: Signature) -> Iterator[Difference]:
    """All differences but those between arrays."""
    if old.function != new.function:
        yield Difference("redefined", None, old.function_text, new.function_text)
    elif old.partial != new.partial:  # uncertain: named only where the bound arguments do not differ
        yield Difference("redefined", None, old.function_text, new.function_text, certain=False)
    yield from _named_values("redefined", old.options, new.options)
    yield from _named_values("static_argument", old.statics, new.statics)
    yield from _named_values("pytree", old.bindings, new.bindings)
    yield from _structure(old, new)
    yield from _named_values("context", old.context, new.context)


def _named_values(
    cause: str, old: tuple[tuple[str, Value], ...], new: tuple[tuple[str, Value], ...]
) -> Iterator[Difference]:
    if old == new:
        return
    before, now = dict(old), dict(new)
    for name in now | before:
        first, second = before.get(name, Value(ABSENT)), now.get(name, Value(ABSENT))
        if first != second:
            yield Difference(cause, name, first.text, second.text, first.text != second.text)


def _structure(old: Signature, new: Signature) -> Iterator[Difference]:
    if old.structure == new.structure:
        return
    before, now = dict(old.structure), dict(new.structure)
    arrays_before, arrays_now = dict(zip(old.names, old.leaves, strict=False)), None
    for path in now | before:
        first, second = before.get(path), now.get(path)
        if first is not None and second is not None:
            if first != second:
                yield Difference("pytree", path, first.text, second.text, first.text != second.text)
        # A container that only one of the two has shows in its parent's text, unless an array was or is in its place.
        elif second is not None and path in arrays_before:
            yield Difference("pytree", path, arrays_before[path].text(), second.text)
        elif first is not None:
            arrays_now = arrays_now or dict(zip(new.names, new.leaves, strict=False))
            if path in arrays_now:
                yield Difference("pytree", path, first.text, arrays_now[path].text())


def _leaves(old: Signature, new: Signature) -> Iterator[Difference]:
    if old.names == new.names:
        if old.leaves == new.leaves and old.shardings == new.shardings:
            return
        pairs = zip(new.names, old.leaves, new.leaves, *_shardings(old, new), strict=False)
        yield from itertools.chain.from_iterable(itertools.starmap(_leaf, pairs))
        return
    first, second = _shardings(old, new)
    before = dict(zip(old.names, zip(old.leaves, first, strict=False), strict=False))
    for name, leaf, sharding in zip(new.names, new.leaves, second, strict=False):
        if name in before:
            yield from _leaf(name, before[name][0], leaf, before[name][1], sharding)


def _shardings(old: Signature, new: Signature) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The shardings of both signatures; empty texts for both where those of one were not seen."""
    if old.shardings and new.shardings:
        return old.shardings, new.shardings
    return ("",) * len(old.names), ("",) * len(new.names)


def _leaf(name: str, old: Leaf, new: Leaf, old_sharding: str, new_sharding: str) -> Iterator[Difference]:
    if old != new:
        if old.dtype != new.dtype:
            cause = "dtype"
        elif old.shape != new.shape:
            cause = "shape"
        else:
            cause = "weak_type" if old.weak_type != new.weak_type else "sharding"
        yield Difference(cause, name, old.text(), new.text())
    elif old_sharding != new_sharding:
        yield Difference("sharding", name, old_sharding, new_sharding)
