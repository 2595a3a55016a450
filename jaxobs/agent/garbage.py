"""Python's collector of cyclic garbage, made to work a little at a time, in the agent's own process.

Reference counts free nearly all that the agent lets go of. And yet the collector would look at all that there is, in one
stretch, whenever much has been made: for 8 to 23 ms while a module of 50 000 instructions is read, and for 1 ms after a
thousand events or so (measured).
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Iterator
from typing import Final

NEVER: Final = 2**30

FULL_SECONDS: Final = 600.0
"""Between full collections. What has been looked at in one is never looked at again, so that each takes some 5 ms."""

LARGE_BYTES: Final = 256 * 2**10
"""Of a module or a trace. What is made from less is looked at within a millisecond."""


class Garbage:
    """`take_over` once everything is loaded, then `collect` about once a second.

    By itself only the youngest is collected, 0.1 ms at a time. Where the agent is a thread of the job nothing is changed:
    the collector is the job's.
    """

    def __init__(self, *, inline: bool) -> None:
        self._inline = inline
        self._full_at = 0.0

    def take_over(self) -> None:
        if not self._inline:
            gc.set_threshold(gc.get_threshold()[0], NEVER, NEVER)
            self.collect()

    def collect(self) -> None:
        """Everything, where it is time."""
        if not self._inline and time.monotonic() >= self._full_at:
            gc.collect()
            gc.freeze()
            self._full_at = time.monotonic() + FULL_SECONDS

    @contextlib.contextmanager
    def unheeded(self, size: int) -> Iterator[None]:
        """For what is made from so many bytes: where it is much, no full collection will look at it.

        Garbage of that moment is kept for ever: of small modules, which are many, that would add up. XLA takes seconds to
        make a large one.
        """
        yield
        if not self._inline and size >= LARGE_BYTES:
            gc.freeze()
