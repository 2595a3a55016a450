"""Gathers the parts of an out-of-memory report, each by itself, and writes them and their most important facts as text.

A part that is missing is named, with the reason.
"""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, NamedTuple

from jaxobs.jax_compat.arrays import Census, list_arrays
from jaxobs.jax_compat.memory import (
    MEMORY_KINDS,
    device_statistics,
    matching_executable,
    named_amounts,
    named_program,
    on_chip_memory,
    requested,
    speaks_of_memory,
)
from jaxobs.jax_compat.objects import is_of
from jaxobs.jax_compat.runtime import backend_exists
from jaxobs.model.clock import monotonic
from jaxobs.model.events import ExecutableCreated, memory_need
from jaxobs.plugin.guard import described, raised_by_signal_handler
from jaxobs.report import peak_memory, tables
from jaxobs.report.tables import Column, Row, computed, figure, known_columns, plain_table
from jaxobs.report.tables import name as name_column
from jaxobs.report.tables import text as text_column
from jaxobs.report.text_table import to_text
from jaxobs.vocabulary.text import masked
from jaxobs.vocabulary.units import byte_size, count

CHAIN = 5
"""Most errors of a chain of causes that are searched: training code wraps errors in its own."""

RUNTIME_ERRORS = frozenset({"JaxRuntimeError", "XlaRuntimeError", "RuntimeError", "ValueError"})
"""Types whose message is read: XLA's own, and those that JAX turns them into (ValueError for an eager operation)."""

MODULES = ("builtins", "jax", "jaxlib", "numpy")

ARRAYS_SECONDS = 0.5
"""Least time for counting live arrays, about 1 µs each: they are what a report is read for."""

SNAPSHOT_SECONDS = 2.0
"""Most seconds to wait for the agent's answer: it may have a newly compiled module to read first."""

GROUPS = 200

LINES = 50

MAX_PROFILE_BYTES = 64 * 2**20

VARIABLES = ("XLA_", "JAX_", "JAXOBS_", "TF_GPU_ALLOCATOR", "TF_FORCE_UNIFIED_MEMORY", "LIBTPU_INIT_ARGS",
             "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")  # fmt: skip
"""Beginnings of the names of environment variables that configure JAX, XLA, jaxobs and the devices JAX sees."""

SHOWN = 10

MEMORY = (*tables.MEMORY, figure("largest free block", "largest_free_bytes", byte_size))
EXECUTABLES = (
    name_column("function", "function"),
    computed("bytes a run", lambda row: memory_need(row["memory"]), byte_size),
    *(figure(kind, kind, byte_size, "memory") for kind in MEMORY_KINDS),
    text_column("executable", "executable"),
)
ARRAYS = (*tables.LIVE_SHAPES, text_column("sharding", "sharding"))
_REMEDIES = {
    "VMEM": "smaller blocks, or a higher limit: vmem_limit_bytes of pallas.tpu.CompilerParams, for all kernels "
    "--xla_tpu_scoped_vmem_limit_kib in LIBTPU_INIT_ARGS",
    "shared memory": "smaller blocks or fewer stages (num_stages)",
}
"""By XLA's documentation of errors (E1001), and what a Triton kernel's shared memory grows with."""

NOT_WATCHED = (
    "not known: the error came out of no watched call (obs.watch): of another function's, or after the call"
)


class Exhaustion(NamedTuple):
    """The error in a chain of causes that says that memory ran out, with its type's name and its message."""

    error: BaseException
    type: str
    message: str


def exhaustion(error: BaseException | None) -> Exhaustion | None:
    """Find the error that says that memory ran out, in `error` and its causes; None if none does."""
    for _ in range(CHAIN):
        if error is None:
            return None
        kind = type(error)
        if is_of(kind, *MODULES):
            # Read from the slots: an error of the user's may define `__str__`, `args` or `__cause__` itself.
            arguments = BaseException.args.__get__(error)  # type: ignore[attr-defined]  # a slot of the class
            message = arguments[0] if arguments and type(arguments[0]) is str else ""
            if issubclass(kind, MemoryError) or (
                kind.__name__ in RUNTIME_ERRORS and speaks_of_memory(message)
            ):
                return Exhaustion(error, kind.__name__, message)
        slots: Any = BaseException
        cause = slots.__cause__.__get__(error)
        error = slots.__context__.__get__(error) if cause is None else cause
    return None


class Ask(NamedTuple):
    """Two questions: `snapshot(seconds)` returns a snapshot's document in that time, `executables()` those reported."""

    snapshot: Callable[[float], Mapping[str, Any]]
    executables: Callable[[], Iterable[ExecutableCreated]]


class Parts:
    """Gathers parts independently of each other; `missing` holds, by name, why a part is absent."""

    def __init__(self) -> None:
        self.missing: dict[str, str] = {}

    def get(self, name: str, get: Callable[[], Any]) -> Any:
        """The part, or None if it fails, as any may while memory is short; the others are gathered all the same."""
        try:
            return get()
        except Exception as problem:
            if raised_by_signal_handler(problem):  # parts take seconds
                raise
            self.missing[name] = described(problem)[:200]
            return None


def gather(
    found: Exhaustion, function: str | None, name: str, settings: Mapping[str, Any], ask: Ask, deadline: float
) -> dict[str, bytes]:
    """The report's files, contents by name. `deadline` is by `monotonic()`; parts that come too late are left out."""
    parts = Parts()
    report: dict[str, Any] = {
        "when": datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"), "pid": os.getpid(), "name": name,
        "type": found.type, "message": found.message, "requested_bytes": requested(found.message),
        "on_chip": on_chip_memory(found.message),
        "blame": function or named_program(found.message), "missing": parts.missing, "settings": _masked(settings),
        "environment": _masked({name: os.environ[name] for name in sorted(os.environ) if name.startswith(VARIABLES)}),
    }  # fmt: skip
    profile = None if report["on_chip"] else _add_memory(parts, report, ask, deadline)
    files = {
        "error.txt": parts.get("error.txt", lambda: _error_text(found)),
        "report.json": parts.get("report.json", lambda: json.dumps(report, indent=1).encode()),
        "allocations.pprof": profile,
    }
    there = {file: content for file, content in files.items() if content}
    summary = parts.get("summary.txt", lambda: summary_text(report).encode())
    return {"summary.txt": summary or f"{found.type}: {found.message}\n{parts.missing}\n".encode()} | there


def _add_memory(parts: Parts, report: dict[str, Any], ask: Ask, deadline: float) -> bytes | None:
    """Add to the report what holds the memory, and which executable failed. Returns the allocation profile."""
    profile: bytes | None = None
    report["live_arrays"] = report["memory_statistics"] = None
    if backend_exists():
        # Arrays first, because other threads of the job go on and change them.
        counted_by = max(deadline - SNAPSHOT_SECONDS, monotonic() + ARRAYS_SECONDS)
        report["live_arrays"] = parts.get("live arrays", lambda: _live_arrays(counted_by))
        devices = parts.get("memory statistics", device_statistics)
        report["memory_statistics"] = devices and [each._asdict() for each in devices]
        profile = parts.get("allocations.pprof", _allocations)
    left = max(0.1, min(SNAPSHOT_SECONDS, deadline - monotonic() - 0.5))
    document = parts.get("snapshot", lambda: ask.snapshot(left)) or {}
    report["process"] = parts.get("process", lambda: _process(document))
    report["executables"] = document.get("executables") or parts.get(
        "executables", lambda: [_entry(executable) for executable in ask.executables()]
    )
    function = report["blame"]
    report["memory_peaks"] = parts.get("memory at the peak", lambda: _peaks(document, function))
    asked, known = report["requested_bytes"], report["executables"] or ()
    report["blame"] = parts.get("executable", lambda: blame(function, known, asked))
    return profile


def blame(function: str | None, executables: Any, requested: int | None) -> str:
    """Say which executable failed: the watched function's, or the only one that needs as much as was asked for."""
    own = [entry for entry in executables if function is None or entry["function"] == function]
    matching = matching_executable(own, requested)
    if matching is not None:
        entry, part = matching
        called = f"{entry['function']}, {entry['executable'] or 'without a known hash'}"
        if function is None:  # an eager operation may have asked for as much
            # An error may be raised after a watched call, where its result is used.
            said = "the error came out of no watched call"
            return f"perhaps {called}: its {part} is as large as what was asked for; {said}"
        return f"{called}: what was asked for is its {part}"
    if function is None:
        return NOT_WATCHED
    known = [entry["executable"] for entry in own if entry["executable"]]
    return f"{function}" + (f", one of {', '.join(known[:5])}" if known else "")


def _live_arrays(deadline: float) -> dict[str, Any]:
    listing = list_arrays(without_failed=True)

    def give_up_late() -> None:
        if monotonic() > deadline:
            raise TimeoutError(f"{len(listing.avals)} live arrays could not be counted in time")

    census = Census(listing, give_up_late)
    return {
        "count": census.count,
        "bytes": census.bytes,
        "without_memory": {"count": listing.failed, "bytes": listing.failed_bytes},
        "groups": [asdict(group) for group in census.groups(GROUPS)],
        "lines": [asdict(line) for line in census.lines(LINES)],
    }


def _allocations() -> bytes:
    import jax

    profile: bytes = jax.profiler.device_memory_profile()
    if len(profile) > MAX_PROFILE_BYTES:
        raise ValueError(f"the profile has {len(profile)} bytes")
    return profile


def _entry(executable: ExecutableCreated) -> dict[str, Any]:
    """The executable as a snapshot's document shows it, without its hash, which only the agent knows."""
    return {
        "function": executable.function,
        "executable": None,
        "memory": dict(executable.memory),
        "devices": executable.devices,
    }


def _peaks(document: Mapping[str, Any], function: str | None) -> list[Any]:
    """What the largest executables hold at their peak, those of the function first."""
    if not document.get("memory_peaks"):
        raise LookupError(document.get("memory_peaks_reason") or "the agent did not tell it")
    return sorted(document["memory_peaks"], key=lambda entry: entry["function"] != function)


def _process(document: Mapping[str, Any]) -> dict[str, Any]:
    """The memory of the process, and what its time went into."""
    process = document.get("process")
    if process is None:
        raise LookupError(document.get("process_reason") or "the agent did not tell it")
    return {key: process.get(key) for key in ("memory", "peak_executable", "run_seconds")}


def _error_text(found: Exhaustion) -> bytes:
    # Not by `format_exception`, which would call `__str__` of errors of the user's that are chained to it.
    where = "".join(traceback.format_tb(found.error.__traceback__))
    text = f"{found.type}: {found.message}\n\nraised here, innermost last:\n{where}"
    return text.encode("utf-8", "replace")


def _masked(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: masked(name, value) for name, value in settings.items()}


def summary_text(report: Mapping[str, Any]) -> str:
    """The summary's text. `report` is what `gather` gathers; any part may be missing."""
    sections = (section(report) for section in (_head, _memory, _executables, _peak, _arrays, _missing))
    return "\n\n".join(filter(None, sections)) + "\n"


def _head(report: Mapping[str, Any]) -> str:
    rows = [
        ("when", report["when"]),
        ("process", f"{report['pid']} ({report['name']})"),
        ("error", f"{report['type']}: {report['message']}"),
    ]
    if report["requested_bytes"] is not None:
        rows.append(("asked for", byte_size(report["requested_bytes"])))
    memory = report.get("on_chip")
    if memory:
        rows.append(("function", report["blame"] or "not known"))
        if memory in _REMEDIES:
            rows.append(("what to do", _REMEDIES[memory]))
    else:
        rows.append(("executable", report["blame"] or "not known"))
    title = f"a kernel needs more {memory} than it may have; no array holds it" if memory else "out of memory"
    return f"jaxobs: {title}\n" + "\n".join(f"  {name:<11}{value}" for name, value in rows)


def _memory(report: Mapping[str, Any]) -> str:
    rows: list[Row] = []
    for each in report.get("memory_statistics") or ():
        amounts = {f"{name}_bytes": amount for name, amount in named_amounts(each["statistics"]).items()}
        rows.append({"name": f"device {each['device']} ({each['platform']})", **amounts})
    process = (report.get("process") or {}).get("memory")
    if process:
        rows.append({"name": "process", **process})
    return _table(MEMORY, rows, "memory")


def _executables(report: Mapping[str, Any]) -> str:
    known = [entry for entry in report.get("executables") or () if entry["memory"]]
    known.sort(key=lambda entry: -memory_need(entry["memory"]))
    return _table(EXECUTABLES, known[:SHOWN], "executables by the memory that they need on one device")


def _peak(report: Mapping[str, Any]) -> str:
    """What one executable holds at its peak: that of the function that failed, else the one that needs most."""
    return to_text(peak_memory.parts(report["memory_peaks"][0])) if report.get("memory_peaks") else ""


def _arrays(report: Mapping[str, Any]) -> str:
    arrays = report.get("live_arrays")
    if not arrays:
        return ""
    failed = arrays.get("without_memory") or {"count": 0}
    unmade = (
        f"; {count(failed['count'])} of {byte_size(failed['bytes'])} got no memory" if failed["count"] else ""
    )
    title = f"largest of {count(arrays['count'])} live arrays, {byte_size(arrays['bytes'])} in all{unmade}"
    return _table(ARRAYS, arrays["groups"][:SHOWN], title)


def _table(columns: Sequence[Column], rows: Sequence[Row], title: str) -> str:
    """The rows as text; empty where there are none."""
    return to_text([plain_table(known_columns(columns, rows), rows, title=title)]) if rows else ""


def _missing(report: Mapping[str, Any]) -> str:
    return "\n".join(f"  {name:<20}not there: {reason}" for name, reason in report["missing"].items())
