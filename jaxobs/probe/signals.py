"""Puts off the user's signal handlers while jaxobs starts or begins to end: none of their exceptions leaves it half done.

A handler written in Python may run, and raise, as Ctrl-C's does, after any call that the main thread makes: in an import,
with a lock taken, in a callback of a weak reference, where the exception is printed and lost. Put off, it runs a moment
later, where its exception reaches the user.
"""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType
from typing import Any


class HandlersPutOff:
    """A context in which no signal handler of the user's runs; at its end each runs for which a signal came.

    It acts on the main thread, on which Python runs all handlers. Contexts may be nested.
    """

    def __init__(self) -> None:
        self._handlers: dict[int, Any] = {}
        self._taken: list[int] = []
        self._came: list[int] = []

    def __enter__(self) -> None:
        if threading.get_ident() != threading.main_thread().ident:
            return
        try:
            for number in signal.valid_signals():
                handler = signal.getsignal(number)
                if callable(handler):  # not the system's default, nor a handler in C
                    self._handlers[number] = handler
                    self._taken.append(number)
                    signal.signal(number, self._note)
        except ValueError:  # an interpreter inside another program, which has no signals
            self._taken.clear()
        except BaseException:
            self._put_back()
            raise

    def __exit__(self, *_: object) -> None:
        try:
            self._put_back()
        finally:
            self._run()

    def _note(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  # as handlers are called
        if number not in self._came:
            self._came.append(number)

    def _put_back(self) -> None:
        try:
            while self._taken:
                signal.signal(self._taken[-1], self._handlers[self._taken[-1]])
                self._taken.pop()
        except BaseException:  # of a handler that is back already
            self._put_back()
            raise

    def _run(self) -> None:
        while self._came:
            number = self._came.pop(0)
            try:
                self._handlers[number](number, sys._getframe())  # noqa: SLF001  # documented
            finally:  # it may raise, and others came too
                self._run()
