"""Explains why a function was compiled again: how its signature differs from those it was compiled for before.

Pure functions on plain tuples. JAX compiles anew when anything in its cache key is new. The explanation is the
difference from the nearest earlier signature, the one with the fewest differences, so that it names what changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import ne
from typing import Final, NamedTuple

from jaxobs.vocabulary.words import CAUSES

ABSENT: Final = "absent"


class Value(NamedTuple):
    """A value in JAX's cache key. `identity` tells objects of the same text apart; 0 where the text alone decides."""

    text: str
    identity: int = 0


class Leaf(NamedTuple):
    """The abstract value of an array argument, without the sharding that explicit sharding mode adds to its type."""

    shape: tuple[int | str, ...]
    dtype: str
    weak_type: bool

    @property
    def text(self) -> str:
        """Type and shape, such as `float32[8,16]`; a weakly typed array comes from a Python scalar."""
        dimensions = ",".join(map(str, self.shape))
        return f"{self.dtype}[{dimensions}]" + (" (weak type)" if self.weak_type else "")


class Signature(NamedTuple):
    """The parts of JAX's cache key that a function was compiled for.

    `function` identifies the function object, by the address of its one weak reference without a callback, which
    `reference` keeps from being another's; where it is a `partial`, the arguments that it binds are among the
    `statics`. `bindings` say how each argument was passed, `structure` holds (path, container) for each container among
    the arguments, `names` and `leaves` the arrays in them. `shardings` is in the order of `leaves`, and empty where it
    was not seen.
    """

    function: Value
    options: tuple[tuple[str, Value], ...]
    context: tuple[tuple[str, Value], ...]
    bindings: tuple[tuple[str, Value], ...]
    statics: tuple[tuple[str, Value], ...]
    structure: tuple[tuple[str, Value], ...]
    names: tuple[str, ...]
    leaves: tuple[Leaf, ...]
    shardings: tuple[str, ...]
    partial: bool = False
    reference: object = None


class Difference(NamedTuple):
    """One difference between two signatures. Its texts are written only for the one that is told.

    `certain`: the values differ. Otherwise only the objects are known to differ, because comparing their values would
    call code of the user's.
    """

    cause: str
    argument: str | None
    old: Value | Leaf
    new: Value | Leaf
    certain: bool = True

    @property
    def properties(self) -> int:
        """How many of an array's shape, element type and weak type differ; 1 for all else."""
        both = isinstance(self.old, Leaf) and isinstance(self.new, Leaf)
        return sum(map(ne, self.old, self.new)) if both else 1


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

    Of those as near, that counts whose arrays differ in the fewest properties, and of these the latest. Objects that may
    or may not be equal are named only where nothing else differs: if they are equal, they did not cause the recompile.
    """
    found: list[Difference] = []
    least: tuple[int, int, int] | None = None
    for old in earlier:
        every = list(differences(old, new))
        certain = [difference for difference in every if difference.certain]
        away = len(certain), len(every), sum(each.properties for each in every)
        if least is None or away <= least:
            least, found = away, certain or every
    if not found:
        return UNEXPLAINED
    first = min(found, key=lambda difference: CAUSES.index(difference.cause))
    return Explanation(first.cause, first.argument, first.old.text, first.new.text, len(found))


def differences(old: Signature, new: Signature) -> Iterator[Difference]:
    """All differences, by kind, and within each kind in the order of the arguments."""
    if old.function != new.function:
        # That a partial is another object is named only where the arguments that it binds do not differ.
        yield Difference("redefined", None, old.function, new.function, certain=not new.partial)
    yield from _named_values("redefined", old.options, new.options)
    yield from _named_values("static_argument", old.statics, new.statics)
    yield from _named_values("pytree", old.bindings, new.bindings)
    yield from _structure(old, new)
    yield from _named_values("context", old.context, new.context)
    yield from _leaves(old, new)


def _named_values(
    cause: str, old: tuple[tuple[str, Value], ...], new: tuple[tuple[str, Value], ...]
) -> Iterator[Difference]:
    if old == new:
        return
    before, now = dict(old), dict(new)
    for name in now | before:
        first, second = before.get(name, Value(ABSENT)), now.get(name, Value(ABSENT))
        if first != second:
            yield Difference(cause, name, first, second, first.text != second.text)


def _structure(old: Signature, new: Signature) -> Iterator[Difference]:
    if old.structure == new.structure:
        return
    # A container that only one of the two has shows in its parent's text, unless an array was or is in its place.
    before, now = (
        dict[str, Value | Leaf](zip(each.names, each.leaves, strict=False)) | dict(each.structure)
        for each in (old, new)
    )
    for path in dict(new.structure) | dict(old.structure):
        first, second = before.get(path), now.get(path)
        if first is not None and second is not None and first != second:
            yield Difference("pytree", path, first, second, first.text != second.text)


def _leaves(old: Signature, new: Signature) -> Iterator[Difference]:
    # Shardings that were not seen of both are not compared.
    seen = bool(old.shardings and new.shardings)
    first, second = (each.shardings if seen else ("",) * len(each.names) for each in (old, new))
    arrays: Iterable[tuple[Leaf | None, str]] = zip(old.leaves, first, strict=False)
    if old.names != new.names:
        before = dict(zip(old.names, arrays, strict=False))
        arrays = (before.get(name, (None, "")) for name in new.names)
    for name, (was, placed), leaf, sharding in zip(new.names, arrays, new.leaves, second, strict=False):
        if was is None:
            continue
        if was != leaf:
            yield Difference(_cause(was, leaf), name, was, leaf)
        elif placed != sharding:
            yield Difference("sharding", name, Value(placed), Value(sharding))


def _cause(old: Leaf, new: Leaf) -> str:
    if old.dtype != new.dtype:
        return "dtype"
    return "shape" if old.shape != new.shape else "weak_type"
