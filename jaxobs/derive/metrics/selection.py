"""Chooses the functions and executables that have series of their own, or are listed, where there are too many."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

HYSTERESIS = 2.0
"""How many times the weight of the least of the chosen a newcomer needs to displace it. The choice is sticky, since a
series that comes and goes makes `rate()` wrong."""


class Selection(Generic[Key]):
    """A sticky choice of at most `limit` keys by weight (device seconds, else FLOPs), not by who came first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._chosen: set[Key] = set()

    def choose(
        self, weights: Mapping[Key, tuple[float, ...]], changed: Iterable[Key] | None = None
    ) -> frozenset[Key]:
        """Choose among `weights`, which are compared left to right: device seconds first, then what stands in for them.

        `changed`: the keys whose weight differs from the last call, if no key has gone since. Only they can come in, so
        the cost grows with their number; a key whose weight has fallen keeps its place until another rises.
        """
        if changed is None:
            self._chosen &= weights.keys()
            changed = weights
        # A newcomer never displaces a heavier key, so no more than `limit` of them come in.
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
    """The `limit` heaviest keys, in order.

    A key outside them is compared only when its weight changes, not when that of one of them falls.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._keys: list[Key] = []

    def update(self, weights: Mapping[Key, tuple[float, ...]], changed: Iterable[Key]) -> list[Key]:
        """The heaviest keys, of equal ones the old first. `changed`: keys whose weight differs from the last call."""
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
