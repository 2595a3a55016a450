"""Reports that memory ran out: writes what is known to a directory and leaves the error exactly as it was.

It is called from `except` clauses alone, so a step that succeeds pays nothing. No value of an array is read, and no
method of the user's types is called.
"""

from __future__ import annotations

import builtins
import os
import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from jaxobs.jax_compat.memory import speaks_of_memory
from jaxobs.model.clock import monotonic
from jaxobs.model.events import memory_need
from jaxobs.plugin.files import temporary_directory
from jaxobs.plugin.guard import raised_by_signal_handler
from jaxobs.plugin.threads import Thread
from jaxobs.probe.out_of_memory.evidence import Ask, gather
from jaxobs.report.text_table import PLAIN_WIDTH, TextTable
from jaxobs.vocabulary.units import byte_size, count, duration, or_absent

CHAIN = 5
"""Most errors of a chain of causes that are searched: training code wraps errors in its own."""


RUNTIME_ERRORS = frozenset({"JaxRuntimeError", "XlaRuntimeError", "RuntimeError", "ValueError"})
"""Types whose message is read: XLA's own, and those that JAX turns them into (ValueError for an eager operation)."""


MODULES = ("builtins", "jax", "jaxlib", "numpy")


NAMES_TRIED = 10
"""Most names tried for a directory: reports of one second need different ones, and others may have taken them all."""

PARTS = ("argument", "output", "temporary", "code", "alias")

SHOWN = 10

_OF_DEVICES = {
    "bytes_in_use": "in use", "peak_bytes_in_use": "peak", "bytes_limit": "limit",
    "largest_free_block_bytes": "largest free block",
}  # fmt: skip

_OF_THE_PROCESS = {"in_use_bytes": "in use", "peak_bytes": "peak", "limit_bytes": "limit"}

SECONDS = 5.0
"""Most seconds that an error is held up for its report."""


class Exhaustion(NamedTuple):
    """The error in a chain of causes that says that memory ran out, with its type's name and its message."""

    error: BaseException
    type: str
    message: str


def exhaustion(error: BaseException | None) -> Exhaustion | None:
    """Find the error that says that memory ran out, in `error` and its causes; None where none does."""
    for _ in range(CHAIN):
        if error is None:
            return None
        kind = type(error)
        module = type.__dict__["__module__"].__get__(kind)
        if type(module) is str and module.partition(".")[0] in MODULES:
            # Read from the slots: an error of the user's may define `__str__`, `args` or `__cause__` itself.
            arguments = BaseException.args.__get__(error)  # type: ignore[attr-defined]  # a slot of the class
            message = arguments[0] if arguments and type(arguments[0]) is str else ""
            if issubclass(kind, MemoryError):
                return Exhaustion(error, kind.__name__, message)
            if kind.__name__ in RUNTIME_ERRORS and speaks_of_memory(message):
                return Exhaustion(error, kind.__name__, message)
        slots: Any = BaseException
        cause = slots.__cause__.__get__(error)
        error = slots.__context__.__get__(error) if cause is None else cause
    return None


class DiskTooSlowError(OSError):
    """The deadline passed while files were being written; those that were complete by then exist."""


def write_report(root: str | None, name: str, files: Mapping[str, bytes], deadline: float) -> Path:
    """Write `files` to a new directory in `root` (default: the system's temporary directory) by `deadline`.

    `deadline` is of `monotonic()`. Only the user may read the directory. Raises OSError where it cannot be written,
    DiskTooSlowError where the deadline came first.
    """
    outcome: list[Path | OSError] = []

    def write() -> None:
        try:
            place = Path(root) if root else temporary_directory()
            if place is None:
                raise FileNotFoundError(
                    "the system has no temporary directory: set JAXOBS_OUT_OF_MEMORY_DIRECTORY"
                )
            directory = _new_directory(place, name)
            for file, content in files.items():
                (directory / file).write_bytes(content)
            outcome.append(directory)
        except OSError as error:
            outcome.append(error)

    try:
        # A disk that hangs must not hold up the error.
        Thread("out-of-memory", write, awaited=False).join(deadline - monotonic())
    except RuntimeError:  # no memory for a thread's stack either, or the interpreter is ending
        write()
    if not outcome:
        raise DiskTooSlowError("the disk did not answer in time")
    if isinstance(outcome[0], OSError):
        raise outcome[0]
    return outcome[0]


def _new_directory(root: Path, name: str) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:100]
    root.mkdir(parents=True, exist_ok=True)
    for number in range(1, NAMES_TRIED + 1):
        directory = root / (f"{plain}-{stamp}" + (f"-{number}" if number > 1 else ""))
        try:
            directory.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return directory
    raise FileExistsError(f"{NAMES_TRIED} directories {plain}-{stamp}… are already in {root}")


def summary_text(report: Mapping[str, Any]) -> str:
    """The summary's text. `report` is what `evidence` gathers; any part may be missing."""
    sections = (_head, _memory, _executables, _arrays, _steps, _compilations, _files)
    return "\n\n".join(text for section in sections if (text := section(report))) + "\n"


def _head(report: Mapping[str, Any]) -> str:
    rows = [
        ("when", report["when"]),
        ("process", f"{report['pid']} ({report['name']})"),
        ("error", f"{report['type']}: {report['message']}"),
    ]
    if report["requested_bytes"] is not None:
        rows.append(("asked for", byte_size(report["requested_bytes"])))
    rows.append(("executable", report["blame"] or "not known"))
    return "jaxobs: out of memory\n" + "\n".join(f"  {name:<11}{value}" for name, value in rows)


def _memory(report: Mapping[str, Any]) -> str:
    lines = []
    for device in report.get("memory_statistics") or ():
        amounts = _amounts(device["statistics"], _OF_DEVICES) or "tells nothing"
        lines.append(f"  device {device['device']} ({device['platform']}): {amounts}")
    process = (report.get("process") or {}).get("memory") or {}
    if process:
        lines.append("  process: " + _amounts(process, _OF_THE_PROCESS))
    addresses = report.get("address_space")
    if addresses:
        in_use, limit = byte_size(addresses["in_use_bytes"]), byte_size(addresses["limit_bytes"])
        lines.append(f"  address space: in use {in_use}, limit {limit} (ulimit -v)")
    return "memory\n" + "\n".join(lines) if lines else ""


def _amounts(statistics: Mapping[str, int | None] | None, names: Mapping[str, str]) -> str:
    """The amounts that are known, under their names: `in use 3 GiB, limit 16 GiB`."""
    known = {words: (statistics or {}).get(key) for key, words in names.items()}
    return ", ".join(f"{words} {byte_size(amount)}" for words, amount in known.items() if amount is not None)


def _executables(report: Mapping[str, Any]) -> str:
    known = [entry for entry in report.get("executables") or () if entry["memory"]]
    known.sort(key=lambda entry: -memory_need(entry["memory"]))
    table = TextTable(
        ("function", "bytes a run", *PARTS, "executable"),
        title="executables by the memory that they need on one device", left=("executable",),
    )  # fmt: skip
    for entry in known[:SHOWN]:
        amounts = (memory_need(entry["memory"]), *(entry["memory"].get(part) for part in PARTS))
        shown = (or_absent(amount, byte_size) for amount in amounts)
        table.add(entry["function"], *shown, entry["executable"] or "")
    return _text(table)


def _arrays(report: Mapping[str, Any]) -> str:
    arrays = report.get("live_arrays")
    if not arrays:
        return ""
    failed = arrays.get("without_memory") or {"count": 0}
    unmade = (
        f"; {count(failed['count'])} of {byte_size(failed['bytes'])} got no memory" if failed["count"] else ""
    )
    table = TextTable(
        ("array", "bytes", "count", "sharding", "made by"),
        title=f"largest of {count(arrays['count'])} live arrays, {byte_size(arrays['bytes'])} in all"
        + unmade,
        left=("sharding", "made by"),
    )
    for group in arrays["groups"][:SHOWN]:
        cells = (byte_size(group["bytes"]), count(group["count"]), group["sharding"])
        table.add(f"{group['dtype']}{group['shape']}", *cells, group["line"] or "not known")
    return _text(table)


def _steps(report: Mapping[str, Any]) -> str:
    table = TextTable(("loop", "step", "took", "ended before", ""), title="last steps", left=("",))
    for step in _recent(report, "steps"):
        cells = (str(step["step"]), duration(step["seconds"]), duration(step["ago"]))
        table.add(step["loop"], *cells, "failed" if step["failed"] else "")
    return _text(table)


def _compilations(report: Mapping[str, Any]) -> str:
    table = TextTable(("function", "took", "ended before", "cause"), title="last compiles", left=("cause",))
    for compilation in _recent(report, "compilations"):
        spent = duration(sum(compilation["seconds"].values()))
        cause = compilation["recompilation"] or ""
        table.add(compilation["function"], spent, duration(compilation["ago"]), cause)
    return _text(table)


def _recent(report: Mapping[str, Any], what: str) -> Sequence[Mapping[str, Any]]:
    known: Sequence[Mapping[str, Any]] = ((report.get("process") or {}).get("recent") or {}).get(what) or ()
    return known[-SHOWN:]


def _text(table: TextTable) -> str:
    """The table as text; empty where it has no rows."""
    return "\n".join(table.lines(PLAIN_WIDTH)) if table.rows else ""


def _files(report: Mapping[str, Any]) -> str:
    named = report.get("files") or {}
    missing = [f"  {name:<24}not there: {reason}" for name, reason in (report.get("missing") or {}).items()]
    lines = [f"  {name:<24}{what}" for name, what in named.items()] + missing
    return "in this directory\n" + "\n".join(lines) if lines else ""


class OutOfMemory:
    """Writes at most `most` reports to `root`, with `name` in their names."""

    def __init__(
        self,
        root: str | None,
        most: int,
        name: str,
        settings: Mapping[str, Any],
        ask: Ask,
        log: Callable[[str], None],
    ) -> None:
        self._root = root
        self._left = most
        self._name = name
        self._settings = settings
        self._ask = ask
        self._log = log
        self._pid = os.getpid()
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
            if found is None or os.getpid() != self._pid or not self._writing.acquire(blocking=False):
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
            self._log(f"out of memory; no report could be written: {type(problem).__name__}: {problem}")

    def stop(self) -> None:
        """Write no more reports."""
        self._left = 0

    def ending(self, timeout: float) -> None:
        """Report the error that ends the process or a `with instrument()` block, if there is one."""
        self.failed(sys.exc_info()[1] or _uncaught(), timeout=timeout)

    def _report(self, found: Exhaustion, function: str | None, deadline: float) -> None:
        files = gather(found, function, self._name, self._settings, self._ask, deadline)
        directory = write_report(self._root, f"jaxobs-out-of-memory-{self._name}", files, deadline)
        self._log(f"out of memory{f' in {function}' if function else ''}: what was known is in {directory}")


def _uncaught() -> BaseException | None:
    """The uncaught error that ends the process; None in an interactive session, which goes on after errors."""
    if hasattr(sys, "ps1") or hasattr(builtins, "__IPYTHON__"):
        return None
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    return error if isinstance(error, BaseException) else None
