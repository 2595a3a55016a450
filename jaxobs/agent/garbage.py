"""Python's collector of cyclic garbage, made to work a little at a time, in the agent's own process.

Reference counts free nearly all that the agent lets go of. And yet the collector would look at all that there is, in one
stretch, whenever much has been made: for 8 to 23 ms while a module of 50 000 instructions is read, and for 1 ms after a
thousand events or so (measured).
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Final

from jaxobs.model.clock import monotonic

NEVER: Final = 2**30

FULL_SECONDS: Final = 600.0
"""Between full collections. What has been looked at in one is set aside and not looked at again, so that each takes some
5 ms."""

GROWN_BYTES: Final = 64 * 2**20
"""By so much the process may have grown before what was set aside is looked at again too, which takes some 30 ms
(measured): it may be garbage by now. Our own plugins make none; those of others may, with each error for example."""

LARGE_BYTES: Final = 256 * 2**10
"""Of a module or a trace. What is made from less is looked at within a millisecond."""


class Garbage:
    """`take_over` once everything is loaded, then `collect` about once a second.

    By itself only the youngest is collected, 0.1 ms at a time. Where the agent is a thread of the job nothing is changed:
    the collector is the job's. `resident` tells the memory of the process in bytes.
    """

    def __init__(self, *, inline: bool, resident: Callable[[], int] = lambda: 0) -> None:
        self._inline = inline
        self._resident = resident
        self._resident_then = 0
        self._full_at = 0.0

    def take_over(self) -> None:
        if not self._inline:
            gc.set_threshold(gc.get_threshold()[0], NEVER, NEVER)
            self._collect()

    def collect(self, *, busy: bool) -> None:
        """Everything, where it is time; `busy`: something large may be half made, so that it waits a while."""
        if self._inline:
            return
        late = monotonic() - self._full_at
        grown = self._resident() > self._resident_then + GROWN_BYTES
        if late >= (FULL_SECONDS if busy else 0.0) or (grown and not busy):
            if grown:
                gc.unfreeze()
            self._collect()

    def _collect(self) -> None:
        gc.collect()
        gc.freeze()
        self._full_at = monotonic() + FULL_SECONDS
        self._resident_then = self._resident()

    @contextlib.contextmanager
    def kept_from_collections(self, size: int) -> Iterator[None]:
        """For what is made from so many bytes: where it is much, no full collection will look at it.

        Garbage of that moment is kept until the process has grown: of small modules, which are many, that would add up.
        XLA takes seconds to make a large one.
        """
        yield
        if not self._inline and size >= LARGE_BYTES:
            gc.freeze()
