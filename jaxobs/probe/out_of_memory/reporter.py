"""Reports that memory ran out: writes what is known to a directory and leaves the error exactly as it was.

It is called from `except` clauses alone, so a step that succeeds pays nothing. No value of an array is read, and no
method of the user's types is called.
"""

from __future__ import annotations

import builtins
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jaxobs.jax_compat.memory import on_chip_memory
from jaxobs.model.clock import monotonic
from jaxobs.plugin.files import temporary_directory
from jaxobs.plugin.guard import Suppressed, described, raised_by_signal_handler
from jaxobs.plugin.threads import Thread
from jaxobs.probe.out_of_memory.evidence import Ask, Exhaustion, exhaustion, gather
from jaxobs.report.runs import REPORT, make_folder

SECONDS = 5.0
"""Most seconds that an error is held up for its report."""


def write_report(settings: Mapping[str, Any], name: str, files: Mapping[str, bytes], deadline: float) -> Path:
    """Write `files` to a new directory in the run's folder by `deadline`, which is of `monotonic()`.

    Where there is no such folder, or it cannot be written, it is in the system's temporary directory, with `name` in its
    own. Only the user may read the directory. Raises OSError or MemoryError where neither can be written, TimeoutError
    where the deadline came first: files that were complete by then exist.
    """
    outcome: Future[Path] = Future()

    def write() -> None:
        try:
            outcome.set_result(_written(settings, name, files))
        except Exception as error:  # noqa: BLE001  # of the disk, or memory is short for this too
            outcome.set_exception(error)

    try:
        # A disk that hangs must not hold up the error.
        Thread("out-of-memory", write, awaited=False).join(deadline - monotonic())
    except RuntimeError as error:  # no memory for a thread's stack either, or the interpreter is ending
        if raised_by_signal_handler(error):
            raise
        write()
    if not outcome.done():
        raise TimeoutError("the disk did not answer in time")
    return outcome.result()


def _written(settings: Mapping[str, Any], name: str, files: Mapping[str, bytes]) -> Path:
    if settings["run_folder"] is not None:
        with Suppressed(OSError):
            return _in_a_new_directory(make_folder(settings), REPORT, files)
    place = temporary_directory()
    if place is None:
        raise FileNotFoundError("the system has no temporary directory: set JAXOBS_RUN_DIRECTORY")
    beginning = f"jaxobs-{REPORT}{re.sub(r'[^A-Za-z0-9._-]+', '-', name)[:100]}-"
    return _in_a_new_directory(place, beginning, files)


def _in_a_new_directory(place: Path, beginning: str, files: Mapping[str, bytes]) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    directory = Path(tempfile.mkdtemp(prefix=f"{beginning}{stamp}-", dir=place))
    for file, content in files.items():
        (directory / file).write_bytes(content)
    return directory


class OutOfMemory:
    """Writes reports, as many and where the settings say; `name` is that of the process."""

    def __init__(self, name: str, settings: Mapping[str, Any], ask: Ask, log: Callable[[str], None]) -> None:
        self._left: int = settings["out_of_memory_reports"]
        self._name = name
        self._settings = settings
        self._ask = ask
        self._log = log
        self._seen: tuple[int, str] | None = None
        self._writing = threading.Lock()

    def failed(
        self, error: BaseException | None, function: str | None = None, timeout: float = SECONDS
    ) -> None:
        """Report an error on its way through, if memory ran out; `function` is the watched one that raised it.

        Raises nothing but what a signal handler of the user's raises meanwhile. An error is reported once, however many
        steps and calls it passes through.
        """
        try:
            found = exhaustion(error) if self._left > 0 else None
            if found is None or not self._writing.acquire(blocking=False):
                return
            try:
                seen = (id(found.error), found.message)
                if seen != self._seen:
                    self._seen = seen
                    self._left -= 1
                    self._report(found, function, monotonic() + timeout)
            finally:
                self._writing.release()
        except Exception as problem:  # the user's error is the one that matters
            if raised_by_signal_handler(problem):
                raise
            self._log(f"out of memory; no report could be written: {described(problem)}")

    def stop(self) -> None:
        """Write no more reports: the run ends, or this is a forked child."""
        self._left = 0

    def ending(self, timeout: float) -> None:
        """Report the error that ends the process or a `with instrument()` block, if there is one."""
        self.failed(sys.exc_info()[1] or uncaught_error(), timeout=timeout)

    def _report(self, found: Exhaustion, function: str | None, deadline: float) -> None:
        files = gather(found, function, self._name, self._settings, self._ask, deadline)
        directory = write_report(self._settings, self._name, files, deadline)
        memory = on_chip_memory(found.message) or "memory"
        self._log(f"out of {memory}{f' in {function}' if function else ''}: what was known is in {directory}")


def uncaught_error() -> BaseException | None:
    """The uncaught error that ends the process; None in an interactive session, which goes on after errors."""
    if hasattr(sys, "ps1") or hasattr(builtins, "__IPYTHON__"):
        return None
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    return error if isinstance(error, BaseException) else None
