"""Puts off the user's signal handlers while jaxobs starts or begins to end: none of their exceptions leaves it half done.

A handler written in Python may run, and raise, as Ctrl-C's does, after any call that the main thread makes: in an import,
with a lock taken, in a callback of a weak reference, where the exception is printed and lost. Put off, it runs a moment
later, where its exception reaches the user.
"""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
from types import FrameType
from typing import Any

try:
    _sigaction: Any = ctypes.CDLL(None).sigaction
except Exception:  # noqa: BLE001  # an audit hook of the job's forbids it: nothing is put off
    _sigaction = None
_ADDRESS_BYTES = ctypes.sizeof(ctypes.c_void_p)
_set_handler, _handler_of = signal.signal, signal.getsignal  # a test of the job's may replace them


class HandlersPutOff:
    """A context in which no signal handler of the user's runs; at its end each runs for which a signal came.

    It acts on the main thread, on which Python runs all handlers. Contexts may be nested. A handler in C, which Python
    does not know of, stays, and so do the flags that `signal.siginterrupt()` sets.
    """

    def __init__(self) -> None:
        self._taken: dict[int, tuple[Any, Any]] = {}
        self._handlers: dict[int, Any] = {}
        self._came: list[int] = []

    def __enter__(self) -> None:
        if _sigaction is None or threading.get_ident() != threading.main_thread().ident:
            return
        try:
            for number in signal.valid_signals():
                handler = _handler_of(number)
                if callable(handler):  # not the system's default
                    before = _action(number)
                    self._taken[number] = (handler, before)
                    _set_handler(number, self._note)
                    if before[:_ADDRESS_BYTES] == _action(number)[:_ADDRESS_BYTES]:
                        self._handlers[number] = handler
                    else:  # C code has put its own in the place of Python's
                        self._put_back(number)
        except ValueError:  # an interpreter inside another program, which has no signals
            self._taken.clear()
        except BaseException:
            self._put_back(*self._taken)
            raise

    def __exit__(self, *_: object) -> None:
        try:
            self._put_back(*self._taken)
        finally:
            self._run()

    def _note(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  # as handlers are called
        if number not in self._came:
            self._came.append(number)

    def _put_back(self, *numbers: int) -> None:
        raised: BaseException | None = None
        for number in numbers:
            handler, before = self._taken[number]
            for _ in range(1 + len(numbers)):  # each that is back already may raise before this one is
                try:
                    _set_handler(number, handler)
                    _sigaction(number, before, None)
                    break
                except BaseException as error:  # noqa: BLE001  # the user's; raised at the end
                    raised = error
            del self._taken[number]
        if raised is not None:
            raise raised

    def _run(self) -> None:
        while self._came:
            number = self._came.pop(0)
            handler = self._handlers.get(number)
            try:
                if handler is not None:
                    handler(number, sys._getframe())  # noqa: SLF001  # documented
            finally:  # it may raise, and others came too
                self._run()


def _action(number: int) -> Any:
    """What the system does on a signal: a `struct sigaction` (sigaction(2)), which begins with the handler's address."""
    action = (ctypes.c_char * 256)()  # more than it has on any system
    _sigaction(number, None, action)
    return action
