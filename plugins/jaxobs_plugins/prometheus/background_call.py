"""Runs calls that may hang, such as reading a file on a dead network mount, on a thread of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Generic, TypeVar

from jaxobs.model.clock import monotonic

NO_ANSWER_SECONDS = 10.0
"""Seconds after which a call that has not returned is logged. The agent takes a plugin for stuck after as long."""

Result = TypeVar("Result")


class NoAnswerError(Exception):
    """The call has not returned yet, `seconds` after it began."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no answer for {seconds:.0f} s")
        self.seconds = seconds


class BackgroundCall(Generic[Result]):
    """Calls a function on a daemon thread, and never twice at once, so that a hang costs only one thread."""

    def __init__(self, function: Callable[[], Result], thread_name: str) -> None:
        self._function = function
        self._thread_name = thread_name
        self._lock = threading.Lock()
        self._under_way: tuple[Future[Result], float] | None = None

    def result(self, patience: float) -> Result:
        """Return or raise what the function does, in the call under way, or else in one that begins now.

        Raises NoAnswerError where that call has taken `patience` seconds since it began, so that repeated calls of this
        method wait no longer in sum; OSError where no thread can be started. An error of a call that began earlier is
        dropped, because its cause may be gone, and another call begins.
        """
        with self._lock:
            earlier = self._under_way
            future, began = earlier or self._begin()
        wait([future], max(0.0, began + patience - monotonic()))
        if not future.done():
            raise NoAnswerError(monotonic() - began)
        with self._lock:
            if self._under_way is not None and self._under_way[0] is future:
                self._under_way = None
        if earlier is not None and future.exception() is not None:
            return self.result(patience)
        return future.result()

    def _begin(self) -> tuple[Future[Result], float]:
        future: Future[Result] = Future()
        try:
            threading.Thread(target=self._run, args=(future,), name=self._thread_name, daemon=True).start()
        except RuntimeError as error:
            raise OSError(f"no thread for it: {error}") from error
        self._under_way = future, monotonic()
        return self._under_way

    def _run(self, future: Future[Result]) -> None:
        try:
            future.set_result(self._function())
        except BaseException as error:  # noqa: BLE001  # it is raised where the result is asked for
            future.set_exception(error)
