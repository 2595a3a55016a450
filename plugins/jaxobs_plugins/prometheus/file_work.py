"""Works with files on a thread of its own, because a file on a network mount that is gone hangs whoever touches it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from jaxobs.model.clock import monotonic

NO_ANSWER_SECONDS = 10.0
"""Seconds after which work that has not ended is logged. The agent takes a plugin for stuck after as long."""


class FileWork:
    """Something that is done with files whenever asked, on a thread while there is any to do: a hang costs one thread."""

    def __init__(self, work: Callable[[], None], files: object, log: Callable[[str], None]) -> None:
        """`work` may raise OSError or ValueError. Each problem is logged once."""
        self._work = work
        self._files = files
        self._log = log
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._asked = False
        self._began = 0.0  # the work under way, in monotonic seconds
        self._said = ""

    def soon(self) -> threading.Thread:
        """Do it once more, as soon as what is under way has ended, on the thread that is returned."""
        with self._lock:
            self._asked = True
            thread = self._thread
            if thread is None:
                self._began = monotonic()
                thread = threading.Thread(target=self._run, name="jaxobs-files", daemon=True)
                thread.start()
                self._thread = thread
            waited = monotonic() - self._began
        if waited > NO_ANSWER_SECONDS:
            self._say(f"{self._files} has not answered for {NO_ANSWER_SECONDS:.0f} s")
        return thread

    def done(self, timeout: float) -> bool:
        """Do it once more. Returns whether it was done within `timeout` seconds."""
        thread = self.soon()
        thread.join(timeout)
        return not thread.is_alive()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._asked:
                    self._thread = None
                    return
                self._asked = False
                self._began = monotonic()
            try:
                self._work()
                self._said = ""
            except (OSError, ValueError) as error:
                self._say(str(error))

    def _say(self, problem: str) -> None:
        if problem != self._said:
            self._said = problem
            self._log(problem)
