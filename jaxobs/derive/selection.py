"""Which functions and executables keep series of their own when there are more than may be shown."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Mapping
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

    def choose(self, weights: Mapping[Key, tuple[float, ...]]) -> frozenset[Key]:
        """`weights` are compared left to right: device seconds first, then what stands in for them."""
        self._chosen &= weights.keys()
        # A newcomer never displaces one that weighs more, so no more than `limit` come in.
        waiting = heapq.nlargest(self._limit, weights.keys() - self._chosen, key=weights.__getitem__)
        while waiting and len(self._chosen) < self._limit:
            self._chosen.add(waiting.pop(0))
        for newcomer in waiting:
            least = min(self._chosen, key=lambda key: weights[key])
            if not _outweighs(weights[newcomer], weights[least]):
                break
            self._chosen.remove(least)
            self._chosen.add(newcomer)
        return frozenset(self._chosen)


def _outweighs(newcomer: tuple[float, ...], chosen: tuple[float, ...]) -> bool:
    for mine, theirs in zip(newcomer, chosen, strict=True):
        if mine > HYSTERESIS * theirs:
            return True
        if theirs > 0:
            return False
    return False
