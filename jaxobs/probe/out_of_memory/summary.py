"""The summary of an out-of-memory report: its most important facts, as text for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jaxobs.jax_compat.memory import MEMORY_KINDS, named_amounts
from jaxobs.model.events import memory_need
from jaxobs.report.peak_memory import parts
from jaxobs.report.tables import Column, Row, computed, figure, known_columns, name, plain_table, text
from jaxobs.report.text_table import to_text
from jaxobs.vocabulary.units import byte_size, count

SHOWN = 10

MEMORY = (
    text("of", "name"),
    figure("in use", "in_use", byte_size),
    figure("peak", "peak", byte_size),
    figure("limit", "limit", byte_size),
    figure("largest free block", "largest_free", byte_size),
)
EXECUTABLES = (
    name("function", "function"),
    computed("bytes a run", lambda row: memory_need(row["memory"]), byte_size),
    *(figure(kind, kind, byte_size, "memory") for kind in MEMORY_KINDS),
    text("executable", "executable"),
)
ARRAYS = (
    Column("array", lambda row: f"{row['dtype']}{row['shape']}", text=True),
    figure("bytes", "bytes", byte_size),
    figure("count", "count", count),
    text("sharding", "sharding"),
    Column("made by", lambda row: row["line"] or "not known", text=True),
)
_REMEDIES = {
    "VMEM": "smaller blocks, or a higher limit: vmem_limit_bytes of pallas.tpu.CompilerParams, for all kernels "
    "--xla_tpu_scoped_vmem_limit_kib in LIBTPU_INIT_ARGS",
    "shared memory": "smaller blocks or fewer stages (num_stages)",
}
"""By XLA's documentation of errors (E1001), and what a Triton kernel's shared memory grows with."""


def summary_text(report: Mapping[str, Any], files: Mapping[str, str]) -> str:
    """The summary's text. `report` is what `evidence` gathers; any part may be missing. `files`: what is in each."""
    sections = [section(report) for section in (_head, _memory, _executables, _peak, _arrays)]
    return "\n\n".join(filter(None, (*sections, _files(files, report["missing"])))) + "\n"


def _head(report: Mapping[str, Any]) -> str:
    rows = [
        ("when", report["when"]),
        ("process", f"{report['pid']} ({report['name']})"),
        ("error", f"{report['type']}: {report['message']}"),
    ]
    rows += [
        (name, byte_size(report[key]))
        for name, key in (("asked for", "requested_bytes"), ("limit", "limit_bytes"))
        if report.get(key) is not None
    ]
    memory = report.get("on_chip")
    if memory:
        rows.append(("kernel", report["kernel"] or "not named by the message"))
        rows.append(("function", report["blame"] or "not known"))
        if memory in _REMEDIES:
            rows.append(("what to do", _REMEDIES[memory]))
    else:
        rows.append(("executable", report["blame"] or "not known"))
    title = f"a kernel needs more {memory} than it may have; no array holds it" if memory else "out of memory"
    return f"jaxobs: {title}\n" + "\n".join(f"  {name:<11}{value}" for name, value in rows)


def _memory(report: Mapping[str, Any]) -> str:
    rows = [
        {"name": f"device {each['device']} ({each['platform']})", **named_amounts(each["statistics"])}
        for each in report.get("memory_statistics") or ()
    ]
    process = (report.get("process") or {}).get("memory")
    for called, amounts in (("process", process), ("addresses (ulimit -v)", report.get("address_space"))):
        if amounts:
            rows.append({"name": called, **{key.removesuffix("_bytes"): amounts[key] for key in amounts}})
    return _table(MEMORY, rows, "memory")


def _executables(report: Mapping[str, Any]) -> str:
    known = [entry for entry in report.get("executables") or () if entry["memory"]]
    known.sort(key=lambda entry: -memory_need(entry["memory"]))
    return _table(EXECUTABLES, known[:SHOWN], "executables by the memory that they need on one device")


def _peak(report: Mapping[str, Any]) -> str:
    """What one executable holds at its peak: that of the function that failed, else the one that needs most."""
    return to_text(parts(report["memory_peaks"][0])) if report.get("memory_peaks") else ""


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


def _files(files: Mapping[str, str], missing: Mapping[str, str]) -> str:
    lines = [f"  {name:<20}{what}" for name, what in files.items()]
    lines += [f"  {name:<20}not there: {reason}" for name, reason in missing.items()]
    return "in this directory\n" + "\n".join(lines)
