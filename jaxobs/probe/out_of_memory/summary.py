"""The summary of an out-of-memory report: its most important facts, as text for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jaxobs.model.events import memory_need
from jaxobs.report.peak_memory import parts
from jaxobs.report.text_table import PLAIN_WIDTH, TextTable, to_text
from jaxobs.vocabulary.units import byte_size, count, or_absent

PARTS = ("argument", "output", "temporary", "code", "alias")
SHOWN = 10

_OF_DEVICES = {
    "bytes_in_use": "in use", "peak_bytes_in_use": "peak", "bytes_limit": "limit",
    "largest_free_block_bytes": "largest free block",
}  # fmt: skip
_OF_THE_PROCESS = {"in_use_bytes": "in use", "peak_bytes": "peak", "limit_bytes": "limit"}
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


def _text(table: TextTable) -> str:
    """The table as text; empty where it has no rows."""
    return "\n".join(table.lines(PLAIN_WIDTH)) if table.rows else ""


def _files(files: Mapping[str, str], missing: Mapping[str, str]) -> str:
    lines = [f"  {name:<20}{what}" for name, what in files.items()]
    lines += [f"  {name:<20}not there: {reason}" for name, reason in missing.items()]
    return "in this directory\n" + "\n".join(lines)
