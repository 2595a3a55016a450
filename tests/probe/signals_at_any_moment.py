"""Runs code of ours once for each moment at which Python may run a signal handler, with the signal at that moment."""

from __future__ import annotations

import contextlib
import dis
import gc
import itertools
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import jaxobs
import jaxobs_plugins

OURS = (str(Path(jaxobs.__file__).parent), str(Path(jaxobs_plugins.__file__).parent), threading.__file__)
"""And what ours calls of `threading`, whose locks must not stay taken."""


class AlarmError(TimeoutError):
    """As handlers usually raise it: an error that many an `except` is meant for."""


class Strike:
    """Sends the signal at the moment `at` of our own code, counted from 0, on this thread.

    Moments are those at which Python runs handlers: on entering a function, after a call, and at a loop's end.
    Not on entering an `__exit__`: in the 30 ns before its first line nothing written in Python can act.
    """

    def __init__(self, at: int) -> None:
        self.left = at
        self._before: dict[int, str] = {}
        """The last opcode of each frame, by its identity: the frame itself would keep alive what our code lets go of."""

    def __enter__(self) -> None:
        gc.disable()  # what is raised in a callback of the garbage collector, JAX's own for one, is lost
        sys._getframe().f_trace_opcodes = (
            True  # Python 3.12 looks once, in `settrace`, whether any frame wants opcodes
        )
        sys.settrace(self._entered)

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        gc.enable()
        self._before.clear()

    def _entered(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(OURS):
            return None
        frame.f_trace_opcodes = True
        self._before.pop(id(frame), None)
        return self._executes

    def _executes(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "opcode":
            before = self._before.get(id(frame), "")
            self._before[id(frame)] = dis.opname[frame.f_code.co_code[frame.f_lasti]]
            # From 3.12 on RESUME itself is not told of.
            entered = before in ("RESUME", "") and frame.f_code.co_name != "__exit__"
            called = before.startswith("CALL") and not before.startswith(
                "CALL_INTRINSIC"
            )  # the latter since 3.12
            if entered or called or before == "JUMP_BACKWARD":
                self.left -= 1
                if self.left == -1:
                    signal.raise_signal(signal.SIGALRM)
        return self._executes


def each_moment(prepare: Callable[[], Callable[[], None]]) -> Iterator[None]:
    """Run what `prepare` returns once for each moment in it at which the signal may come."""
    prepare()()  # what is imported and remembered at the first time is out of the way
    for at in itertools.count():
        with Strike(sys.maxsize):  # from Python 3.12 on only code that has run once is looked at by opcodes
            prepare()()
        run, strike = prepare(), Strike(at)
        with contextlib.suppress(AlarmError):
            with strike:
                run()
            if strike.left >= 0:
                return
            pytest.fail(f"what the handler raised at moment {at} was lost")
        yield
