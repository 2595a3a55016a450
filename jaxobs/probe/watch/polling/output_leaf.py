"""Chooses the output of a watched function that is polled: the smallest that lives long enough."""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Iterator
from typing import Any

from jaxobs.jax_compat.arrays import is_askable, is_deleted
from jaxobs.plugin.guard import raised_by_signal_handler
from jaxobs.probe.watch.signatures import Path, leaves_by_path, step_into

BURST = 4
"""Calls that one round samples: in a row where the host waits for each, so that the end of one is the beginning of the
next; else the next one after the end of the one before was seen."""

SMALL = 2**16
"""Bytes of the largest output that is kept alive until the device is done with it: no job misses so few."""

LOST_IN_A_ROW = 40
"""Losses in a row, of leaves donated before they were ready, after which the function is no longer polled. It is more
than the calls by which a host can be ahead of its device; before that the host may wait for one of them, as where it
reads the loss each tenth step."""

LOST_OTHERWISE = 4
"""Losses in a row, with no leaf seen to be donated to the next call, after which another leaf is polled. The first few
may have been lost before it was known which leaves are donated."""


class OutputLeaf:
    """The way to the smallest output leaf of one watched function that lives long enough, found once.

    A donated leaf is dead by the next step. If every leaf is donated, or too large to be kept, one of them is polled as
    long as it lives: until the next call. Where it is never ready by then, the function's device time stays absent.
    """

    __slots__ = ("_earlier", "_losses", "_short_lived", "_ways", "exhausted")

    def __init__(self) -> None:
        self._ways: list[Path] | None = None
        self._earlier: list[tuple[Path, weakref.ref[Any]]] | None = None
        """After a loss: all leaves of one result. At the next call they show at once which of hundreds are donated."""
        self._short_lived = False
        self._losses = 0
        self.exhausted = False

    def take(self, result: Any) -> Any:
        """The leaf of this result to poll, by a weak reference if it is too large to keep; None where there is none."""
        if self._ways is None:
            try:
                self._ways = _ways_to_leaves(result)
            except Exception as error:
                if not raised_by_signal_handler(error):
                    self._ways = []  # what the user returned cannot be flattened
                raise
        if self._earlier is not None:
            self._leave_out_donated(result)
        while self._ways:
            try:
                leaf = _leaf_at(self._ways[0], result)
                if leaf is not None:
                    if leaf.nbytes <= SMALL:
                        return leaf
                    self._short_lived = True
                    return weakref.ref(leaf)
            except (AttributeError, KeyError, IndexError, TypeError) as error:
                # Another structure than the first time.
                if raised_by_signal_handler(error):
                    raise
            self._ways.pop(0)
        self.exhausted = True
        return None

    def seen(self) -> None:
        """Note that the leaf was ready."""
        self._losses = 0

    def lost(self) -> None:
        """Note that the leaf was donated or released before it was seen to be ready; another may then be chosen."""
        self._losses += 1
        if not self._short_lived and self._earlier is None:
            self._earlier = []
        if self._losses >= LOST_IN_A_ROW:
            self.exhausted = True

    def _leave_out_donated(self, result: Any) -> None:
        """Leave out donated leaves: remember the leaves of one call, and at the next see which of them it deleted."""
        if not self._ways:
            return
        if not self._earlier:
            self._earlier = list(_references(self._ways, result))
            return
        # By identity: keys in a way may be the user's.
        donated = {id(way) for way, leaf in self._earlier if is_deleted(leaf)}
        left = [way for way in self._ways if id(way) not in donated]
        if not donated and self._losses > LOST_OTHERWISE:
            left = left[1:]
        if left and len(left) < len(self._ways):
            self._losses = 0
        self._short_lived = not left
        self._ways, self._earlier = left or self._ways[:1], None


def _leaf_at(way: Path, result: Any) -> Any:
    """The leaf that `way` leads to; None if it is no array of JAX's own. Raises as `step_into` does."""
    for how, key in way:
        result = step_into(result, how, key)
    return result if is_askable(result) else None


def _references(ways: list[Path], result: Any) -> Iterator[tuple[Path, weakref.ref[Any]]]:
    for way in ways:
        with contextlib.suppress(AttributeError, LookupError, TypeError):
            leaf = _leaf_at(way, result)
            if leaf is not None:
                yield way, weakref.ref(leaf)


def _ways_to_leaves(result: Any) -> list[Path]:
    """Paths to the array leaves, smallest first: the loss before the parameters."""
    found: list[tuple[int, int, Path]] = []
    for path, leaf in leaves_by_path(result):
        if is_askable(leaf):
            # The later of equally large leaves: by custom the state comes first, and is donated to the next step.
            found.append((int(getattr(leaf, "nbytes", sys.maxsize)), -len(found), path))
    return [path for _, _, path in sorted(found)]
