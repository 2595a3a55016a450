"""The registry of watched functions. It keeps none of them alive.

What `watch()` returns is kept as an attribute of the jitted function, so watching the function again returns the same
object, which then costs no compile as a static argument or under another `jax.jit`. That object holds a twin of the
function, not the function itself, so there is no reference cycle for Python's garbage collector to find. For a function
that has no twin it is the same object for as long as somebody holds it. Weak references here have no callbacks: what a
user's signal handler raises in a callback would be lost.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable
from typing import Any

from jaxobs.jax_compat.jit import twin
from jaxobs.plugin.guard import Suppressed
from jaxobs.probe.watch.calls import Calls
from jaxobs.probe.watch.watchable import FLAX_JITTED, has_jitted_inside, name_of
from jaxobs.probe.watch.watched import Watched, calls_of, note_for, state_of

ATTRIBUTE = "__jaxobs_watched__"

_lock = threading.RLock()  # a finalizer that watches may run within
_watched: dict[int, weakref.ref[Watched]] = {}
"""By the identity of the function if it has no twin, which lives as long as what watches it; else by their own."""

_most = 100
"""How many there may be before those that are gone are let go of: to look at all each time would take the square."""


def renew_lock() -> None:
    """Make a new lock, in a forked child: a thread of the parent, which the child lacks, may have held the old one."""
    global _lock
    _lock = threading.RLock()


def _living() -> list[Watched]:
    """All watched functions of this process that are alive."""
    return [found for reference in list(_watched.values()) if (found := reference()) is not None]


def watched(function: Any) -> Watched:
    """The one `Watched` object of this function, made if there is none."""
    global _most
    if isinstance(function, Watched):
        return function
    with _lock:
        found = _held_by(function)
        if found is not None:
            return found
        other = twin(function)
        if other is None:
            found = Watched(function)
        else:
            found = vars(function)[ATTRIBUTE] = Watched(other, function)
        _watched[id(function if other is None else found)] = weakref.ref(found)
        if len(_watched) >= _most:
            for key, reference in list(_watched.items()):
                # A finalizer that watches may run within, and take the place.
                if reference() is None and _watched.get(key) is reference:
                    del _watched[key]
            _most = max(100, 2 * len(_watched))
        return found


def _held_by(function: Any) -> Watched | None:
    """The object made for this function before; not one made for a function whose attributes were copied to it."""
    held = getattr(function, "__dict__", None)
    found = held.get(ATTRIBUTE) if type(held) is dict else None
    if isinstance(found, Watched) and state_of(found).given is function:
        return found
    reference = _watched.get(id(function))
    found = None if reference is None else reference()
    return found if found is not None and state_of(found).function is function else None


class Watching:
    """The functions watched for one observer. `make` returns the `Calls` of a function, from it and its name's number."""

    def __init__(self, make: Callable[[Any, int], Calls]) -> None:
        self._make, self._over = make, False
        self._count = itertools.count(-1, -1)
        self._numbers: dict[str, int] = {}
        """By the names of functions: whoever makes functions without end gives them one name."""

    def begin(self) -> None:
        """Go on watching what an earlier observer watched."""
        self._over = False
        for found in _living():
            with Suppressed(Exception):  # attributes of an object of the user's, which were read before
                self._attach(found)

    def watch(self, function: Any) -> Any:
        """What stands in for the function. What `flax.nnx.jit` returns stands for itself, and is watched inside."""
        if has_jitted_inside(function):
            setattr(function, FLAX_JITTED, self.watch(getattr(function, FLAX_JITTED)))
            return function
        found = watched(function)
        self._attach(found)
        return found

    def end(self) -> None:
        """Note nothing any more, nor of what is watched from now on; also called in a forked child."""
        self._over = True
        for found in _living():
            note_for(found, None)

    def _attach(self, found: Watched) -> None:
        if calls_of(found) is None and not self._over:
            function = state_of(found).function
            number = self._numbers.setdefault(name_of(function), next(self._count))
            note_for(found, self._make(function, number))
