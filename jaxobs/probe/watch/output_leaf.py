"""Which output of a watched function is looked at: the smallest that lives long enough."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from jaxobs.plugin.guard import raised_by_signal_handler
from jaxobs.probe.watch.readiness import is_askable
from jaxobs.probe.watch.room import ALWAYS, room
from jaxobs.probe.watch.signatures import step_into

BURST = 4
"""Calls in a row that one sample looks at. The device may be far behind the host: the wait for the first is long and its
end known only roughly, but from it on the next ones are polled closely, and each end is the next one's beginning."""


class OutputLeaf:
    """The way to the smallest output leaf of one watched function that lives long enough, found once.

    A donated leaf is dead by the next step; then the next larger is tried, and when none is left the function's
    device time stays absent.
    """

    __slots__ = ("_room", "_ways", "exhausted")

    def __init__(self) -> None:
        self._ways: list[tuple[Any, ...]] | None = None
        self._room: int | None = None
        self.exhausted = False

    def take(self, result: Any) -> Any:
        """The leaf of this result, None where there is none to look at."""
        if self._ways is None:
            try:
                self._ways = _ways_to_leaves(result)
            except Exception as error:
                if not raised_by_signal_handler(error):
                    self._ways = []  # what the user returned cannot be flattened
                raise
        while self._ways:
            value = result
            try:
                for how, key in self._ways[0]:
                    value = step_into(value, how, key)
                if is_askable(value):
                    if value.nbytes <= ALWAYS or value.nbytes <= self._room_for(value):
                        return value
                    self._ways.clear()  # the others are larger
                    break
            except (AttributeError, KeyError, IndexError, TypeError) as error:
                # Another structure than the first time.
                if raised_by_signal_handler(error):
                    raise
            self._ways.pop(0)
        self.exhausted = True
        return None

    def _room_for(self, leaf: Any) -> int:
        """As it was when it was last looked at; here only once, as the training thread does no more than it must."""
        if self._room is None:
            self._room = room(leaf, BURST)
        return self._room

    def measure(self, leaf: Any) -> None:
        """On the polling thread: how much memory there is by now for outputs like this one."""
        if self._room is not None:
            with contextlib.suppress(Exception):  # a device may not tell, or be gone
                self._room = room(leaf, BURST)

    def died(self) -> None:
        """The leaf was donated before it was ready: take another one from now on."""
        if self._ways:
            self._ways.pop(0)
            self.exhausted = not self._ways


def _ways_to_leaves(result: Any) -> list[tuple[Any, ...]]:
    """Paths to the array leaves, smallest first: the loss before the parameters. Steps are those of `step_into`."""
    from jax.tree_util import DictKey, GetAttrKey, SequenceKey, tree_flatten_with_path

    found: list[tuple[int, int, tuple[Any, ...]]] = []
    for path, leaf in tree_flatten_with_path(result)[0]:
        if not is_askable(leaf):
            continue
        way: list[Any] = []
        for key in path:
            if isinstance(key, SequenceKey):
                way.append(("item", key.idx))
            elif isinstance(key, DictKey):
                way.append(("item", key.key))
            elif isinstance(key, GetAttrKey):
                way.append(("attribute", key.name))
            else:
                break
        else:
            # Of equals the later one: state comes first by custom, and is donated to the next step.
            found.append((int(getattr(leaf, "nbytes", sys.maxsize)), -len(found), tuple(way)))
    return [way for _, _, way in sorted(found)]
