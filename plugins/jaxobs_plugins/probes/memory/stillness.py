"""Whether the job's steps stand still: then a call that holds the interpreter lock for long delays none of them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

from jaxobs.jax_compat.compiling_frames import is_compiling


class Stillness:
    """Call it about once a second: true from the second time on that it meets the same compile, or a checkpoint.

    One that has gone on for a second will mostly go on for longer. Only a compile on the main thread counts: it does not
    hold the interpreter lock, and steps wait for it.
    """

    def __init__(self, in_checkpoint: Callable[[], bool]) -> None:
        self._in_checkpoint = in_checkpoint
        self._before: object = None

    def __call__(self) -> bool:
        now: object = "checkpoint" if self._in_checkpoint() else _compile_under_way()
        before, self._before = self._before, now
        return now is not None and now == before


def _compile_under_way() -> object:
    """What tells one call of XLA's compiler on the main thread from the next; None where there is none."""
    main = threading.main_thread().ident
    frame = sys._current_frames().get(main or 0)  # noqa: SLF001  # documented, for all its name
    return (id(frame), frame.f_lasti) if frame is not None and is_compiling(frame) else None
