"""Detects that the job's steps stand still, so that a call that holds the interpreter lock for long delays none."""

from __future__ import annotations

import threading
from collections.abc import Callable

from jaxobs.jax_compat.compiling import is_compiling
from jaxobs.plugin.frames import stack_of


class Stillness:
    """Says whether steps stand still; call it about once a second.

    True from the second call in a row that meets the same compile, or a checkpoint: one that has lasted for a second
    will mostly last longer. Only a compile on the main thread counts: it does not hold
    the interpreter lock, and steps wait.
    """

    def __init__(self, in_checkpoint: Callable[[], bool]) -> None:
        self._in_checkpoint = in_checkpoint
        self._before: object = None

    def __call__(self) -> bool:
        now: object = "checkpoint" if self._in_checkpoint() else _compile_under_way()
        before, self._before = self._before, now
        return now is not None and now == before


def _compile_under_way() -> object:
    """A key of the call of XLA's compiler on the main thread, different for the next call; None where there is none."""
    innermost = next(iter(stack_of(threading.main_thread().ident, 1)), None)
    return (id(innermost), innermost.f_lasti) if innermost is not None and is_compiling(innermost) else None
