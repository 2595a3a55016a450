"""Which functions and executables keep series of their own, and are listed, when there are more than may be shown."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

HYSTERESIS = 2.0
"""A newcomer displaces the least of the chosen only with this many times its weight: the choice is sticky, since a series
that comes and goes makes `rate()` untrue."""


class Selection(Generic[Key]):
    """At most `limit` keys, by weight (device seconds, else FLOPs), never by who came first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._chosen: set[Key] = set()

    def choose(
        self, weights: Mapping[Key, tuple[float, ...]], changed: Iterable[Key] | None = None
    ) -> frozenset[Key]:
        """`weights` are compared left to right: device seconds first, then what stands in for them.

        `changed`: those whose weight is another than the last time, where none has gone. Only they can come in, so it
        takes as long as these are many; one that has fallen keeps its place until another rises.
        """
        if changed is None:
            self._chosen &= weights.keys()
            changed = weights
        # A newcomer never displaces one that weighs more, so no more than `limit` come in.
        newcomers = [key for key in changed if key not in self._chosen]
        waiting = heapq.nlargest(self._limit, newcomers, key=weights.__getitem__)
        while waiting and len(self._chosen) < self._limit:
            self._chosen.add(waiting.pop(0))
        for newcomer in waiting:
            least = min(self._chosen, key=lambda key: weights[key])
            if not _outweighs(weights[newcomer], weights[least]):
                break
            self._chosen.remove(least)
            self._chosen.add(newcomer)
        return frozenset(self._chosen)


class Largest(Generic[Key]):
    """The `limit` keys of the most weight, in order. Weights that fall are noticed when they change."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._keys: list[Key] = []

    def update(self, weights: Mapping[Key, tuple[float, ...]], changed: Iterable[Key]) -> list[Key]:
        """`changed`: those whose weight is another than the last time; of equals those that were there stay first."""
        candidates = dict.fromkeys(self._keys)
        candidates.update(dict.fromkeys(changed))
        self._keys = heapq.nlargest(self._limit, candidates, key=weights.__getitem__)
        return self._keys


def _outweighs(newcomer: tuple[float, ...], chosen: tuple[float, ...]) -> bool:
    for mine, theirs in zip(newcomer, chosen, strict=True):
        if mine > HYSTERESIS * theirs:
            return True
        if theirs > 0:
            return False
    return False
