"""The threads of jaxobs in the job, which the job does not meet: it sees none of them, and no signal goes to one.

They are not made by `threading.Thread`: a job that joins each thread of `threading.enumerate()` would wait for them, and
functions that it gave to `threading.setprofile`, `settrace` and `excepthook` would run on them. (Those given to
`threading.setprofile_all_threads` and `settrace_all_threads`, of Python 3.12 and later, do.)

Each is known here until it ends, so that the end of the interpreter waits for all of them: one that then held an array
which the device has not computed, or was in a call of JAX's, would end the process by a signal.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from jaxobs.model.clock import monotonic, thread_time, thread_time_of
from jaxobs.plugin.guard import Suppressed, described
from jaxobs.plugin.log import warn

MAX_CALL_SECONDS = 30.0
"""Most seconds for which the end of the interpreter waits for threads that run only code of jaxobs: longer than any
call of theirs takes, of which the longest is that of a profiler session that ends."""

FAULTS = {"SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP", "SIGSYS"}
"""Signals that a thread gets for what it does itself; blocked, they would end the process without their handlers."""

GREENLETS = ("gevent", "eventlet")
"""Libraries whose `monkey_patch` lets threads be greenlets: ours would take turns with the job's on its own thread, and a
wait for one within a compile would let another of the job's begin the same compile, which JAX takes for a recursion."""

_living: set[Thread] = set()
_spent: list[float] = []
"""Seconds of processor time of each that has ended."""


class Call:
    """A call that one thread waits for, and any thread may make; those that nobody has waited for yet count as one.

    Its lock is C's, and not taken in Python as those of `threading.Event` and `Semaphore`: it is not left taken where a
    signal handler of the user's, or a finalizer, interrupts.
    """

    def __init__(self) -> None:
        self._lock = _thread.allocate_lock()
        self._lock.acquire()

    def make(self) -> None:
        """Let the waiting thread go on, or keep it from waiting the next time."""
        with Suppressed(RuntimeError):  # it is made already
            self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for a call, and take it; False where there was none for `timeout` seconds."""
        return self._lock.acquire(timeout=-1.0 if timeout is None else max(0.0, timeout))

    def forget(self) -> None:
        """Take the call if there is one."""
        self._lock.acquire(blocking=False)


class Flag(Call):
    """An event that happens once, for which any number of threads may wait."""

    _set = False

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        """Let all who wait go on; safe twice."""
        self._set = True
        self.make()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, for `timeout` seconds at most. Returns whether it is."""
        if not self._set and super().wait(timeout):
            self.make()  # for the next who waits
        return self._set


class Thread:
    """A thread that calls `life(*arguments)`, which must not raise. Raises RuntimeError where none can be started.

    `awaited`: the end of the interpreter waits for it. False for one that runs code of others, which may hang, or that
    never holds an array.
    """

    def __init__(
        self, name: str, life: Callable[..., None], *arguments: object, awaited: bool = True
    ) -> None:
        self.name = f"jaxobs-{name}"
        self.awaited = awaited
        self.number = self.native = 0
        """What `threading.get_ident()` returns on it, and the number that the system knows it by, once it has begun."""
        self._ended = Flag()
        if not threading.main_thread().is_alive():  # from Python 3.12 on it says so itself
            raise RuntimeError("can't create new thread at interpreter shutdown")
        made_by = (getattr(_thread.start_new_thread, "__module__", None) or "").partition(".")[0]
        if made_by in GREENLETS:
            raise RuntimeError(f"{made_by} has put greenlets in the place of Python's threads")
        _hide_from_threading()
        _living.add(self)
        try:
            _start(self._run, (life, *arguments))
        except RuntimeError:
            _living.discard(self)
            raise

    def join(self, timeout: float | None = None) -> bool:
        """Wait for its end, for `timeout` seconds at most. Returns whether it has ended."""
        return self._ended.wait(timeout)

    def _run(self, life: Callable[..., None], *arguments: object) -> None:
        self.number, self.native = _thread.get_ident(), threading.get_native_id()
        try:
            life(*arguments)
        except BaseException as error:  # noqa: BLE001  # a traceback on the job's console is nothing of the job's
            warn(f"the thread {self.name} has ended: {described(error)}")
        finally:
            del life, arguments
            _living.discard(self)
            with contextlib.suppress(OSError):  # a sandbox of the job's may forbid to ask for it
                _spent.append(thread_time())
            self._ended.set()


def living() -> list[Thread]:
    """The threads that were started and have not ended."""
    return list(_living)


def cpu_seconds() -> float:
    """Seconds of processor time that our threads have used so far, with those that have ended.

    One that ends at this moment may be missing.
    """
    total = sum(_spent)  # first, so that none is counted twice
    for thread in living():
        with contextlib.suppress(OSError):
            total += thread_time_of(thread.native) if thread.native else 0.0
    return total


def is_ours(number: int) -> bool:
    """Whether a thread is one of ours, by what `threading.get_ident()` returns on it."""
    return number in [thread.number for thread in living()]


def join_all() -> None:
    """Wait for all threads that are to be waited for, MAX_CALL_SECONDS seconds at most."""
    deadline = monotonic() + MAX_CALL_SECONDS
    for thread in living():
        if thread.awaited:
            thread.join(deadline - monotonic())


def _start(function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    """Start a thread that blocks all signals but FAULTS from its first moment on."""
    blocked = [number for number in signal.valid_signals() if getattr(number, "name", "") not in FAULTS]
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
        _thread.start_new_thread(function, arguments)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _hide_from_threading() -> None:
    """Keep `threading.current_thread()` from listing a thread of ours.

    It is called on ours too, by `logging` and by plugins, and for a thread that it does not know it makes an object that
    stands in `threading.enumerate()` from then on, and whose `join()` raises.
    """
    names: dict[str, Any] = vars(threading)
    listed: Any = names.get("_DummyThread")
    if listed is None or hasattr(listed, "hides_jaxobs"):
        return

    class _DummyThread(listed):  # type: ignore[misc]  # it is known at run time only
        __doc__ = listed.__doc__
        __module__ = listed.__module__
        __qualname__ = listed.__qualname__
        hides_jaxobs = True

        def __init__(self, names: dict[str, Any] = names, ours: set[Thread] = _living) -> None:
            with names["_active_limbo_lock"]:  # which `enumerate()` takes
                super().__init__()
                own = {thread.number: thread for thread in list(ours)}.get(self.ident)
                if own is not None:
                    self.name = own.name
                    names["_active"].pop(self.ident, None)

    names["_DummyThread"] = _DummyThread


for table in (_living, _spent):  # a child has none of them
    os.register_at_fork(after_in_child=table.clear)
