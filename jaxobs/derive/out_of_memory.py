"""What an out-of-memory error says, which executable it concerns, and the report's summary as text for a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jaxobs.derive.memory import memory_need

WORDS = ("RESOURCE_EXHAUSTED", "Out of memory", "Ran out of memory")
"""One of these is in every such message of XLA's: on CPU up to JAX 0.8 it begins with `INTERNAL`, later and on GPU and
TPU with `RESOURCE_EXHAUSTED`."""

ALLOCATION = re.compile(
    r"(?:allocat\w*|request for)\s+([\d.]+)\s?(bytes|[KMGT]iB)?(?:\s*\((\d+)B?\))?", re.IGNORECASE
)
"""`allocating 16777216 bytes` (CPU), `trying to allocate 8.00GiB`, `request for 32.00MiB (33554432B)`."""

UNITS = {"bytes": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}

ALIGNMENT = 4_096
ROUNDING = 0.005
"""An allocation is larger than what it is for by alignment, and by rounding where the message gives two decimals. For a
small one a page is no small difference, so no more than an eighth of it counts as alignment."""

PARTS = ("argument", "output", "temporary", "code", "alias")
SHOWN = 10


def speaks_of_memory(message: str) -> bool:
    """Whether a message of JAX's runtime says that memory ran out."""
    return any(word in message for word in WORDS)


def requested_bytes(message: str) -> int | None:
    """How much was asked for when it failed; None where the message does not say."""
    found = ALLOCATION.search(message)
    if found is None:
        return None
    amount, unit, exact = found.groups()
    if exact:
        return int(exact)
    try:
        return round(float(amount) * UNITS[(unit or "bytes").lower()])
    except ValueError:  # more than one point
        return None


def matching_executable(
    executables: Iterable[Mapping[str, Any]], requested: int | None
) -> tuple[Mapping[str, Any], str] | None:
    """The executable of which some part needs as much as was asked for, and which part. None where none does, or several.

    Of namesakes that need the same the newest counts as the one.
    """
    if not requested:
        return None
    found: dict[str, tuple[Mapping[str, Any], str]] = {}
    larger = min(ALIGNMENT, requested // 8) + ROUNDING * requested
    for entry in executables:
        parts = {part: (entry["memory"] or {}).get(part, 0) for part in ("temporary", "output")}
        for part, amount in parts.items():
            if amount > 0 and -ROUNDING * requested <= requested - amount <= larger:
                found.setdefault(entry["function"], (entry, part))
    return next(iter(found.values())) if len(found) == 1 else None


def summary_text(report: Mapping[str, Any]) -> str:
    """The report for a terminal. `report` is what `jaxobs.probe.out_of_memory` gathers; any part may be missing."""
    sections = (_head, _memory, _executables, _arrays, _steps, _compilations, _files)
    return "\n\n".join(text for section in sections if (text := section(report))) + "\n"


def _head(report: Mapping[str, Any]) -> str:
    rows = [
        ("when", report["when"]),
        ("process", f"{report['pid']} ({report['name']})"),
        ("error", f"{report['type']}: {report['message']}"),
    ]
    if report["requested_bytes"] is not None:
        rows.append(("asked for", in_words(report["requested_bytes"])))
    rows.append(("executable", report["blame"] or "not known"))
    return "jaxobs: out of memory\n" + "\n".join(f"  {name:<11}{value}" for name, value in rows)


def _memory(report: Mapping[str, Any]) -> str:
    lines = []
    for device in report.get("memory_statistics") or ():
        told = device["statistics"]
        names = {
            "bytes_in_use": "in use", "peak_bytes_in_use": "peak", "bytes_limit": "limit",
            "largest_free_block_bytes": "largest free block",
        }  # fmt: skip
        amounts = [f"{words} {in_words(told[key])}" for key, words in names.items() if told and key in told]
        lines.append(
            f"  device {device['device']} ({device['platform']}): " + (", ".join(amounts) or "tells nothing")
        )
    process = (report.get("process") or {}).get("memory") or {}
    if process:
        told = {"in use": "in_use_bytes", "peak": "peak_bytes", "limit": "limit_bytes"}
        amounts = [
            f"{words} {in_words(process[key])}" for words, key in told.items() if process.get(key) is not None
        ]
        lines.append("  process: " + ", ".join(amounts))
    return "memory\n" + "\n".join(lines) if lines else ""


def _executables(report: Mapping[str, Any]) -> str:
    known = [entry for entry in report.get("executables") or () if entry["memory"]]
    known.sort(key=lambda entry: -memory_need(entry["memory"]))
    rows = [("bytes a run", *PARTS, "function", "executable")]
    for entry in known[:SHOWN]:
        amounts = [in_words(entry["memory"].get(part, 0)) for part in PARTS]
        rows.append(
            (in_words(memory_need(entry["memory"])), *amounts, entry["function"], entry["executable"] or "")
        )
    return _table("executables by the memory that they need on one device", rows)


def _arrays(report: Mapping[str, Any]) -> str:
    arrays = report.get("live_arrays")
    if not arrays:
        return ""
    rows: list[Sequence[str]] = [("bytes", "count", "array", "sharding", "made by")]
    for group in arrays["groups"][:SHOWN]:
        array = f"{group['dtype']}{group['shape']}"
        line = group["line"] or "not known"
        rows.append((in_words(group["bytes"]), str(group["count"]), array, group["sharding"], line))
    return _table(f"largest of {arrays['count']} live arrays, {in_words(arrays['bytes'])} in all", rows)


def _steps(report: Mapping[str, Any]) -> str:
    steps = ((report.get("process") or {}).get("recent") or {}).get("steps") or ()
    rows = [("seconds", "ago", "loop", "step", "")]
    for step in steps[-SHOWN:]:
        told = (f"{step['seconds']:.4g}", f"{step['ago']:.1f}", step["loop"], str(step["step"]))
        rows.append((*told, "failed" if step["failed"] else ""))
    return _table("last steps", rows)


def _compilations(report: Mapping[str, Any]) -> str:
    made = ((report.get("process") or {}).get("recent") or {}).get("compilations") or ()
    rows = [("seconds", "ago", "function", "cause")]
    for compilation in made[-SHOWN:]:
        total = sum(compilation["seconds"].values())
        cause = compilation["recompilation"] or ""
        rows.append((f"{total:.4g}", f"{compilation['ago']:.1f}", compilation["function"], cause))
    return _table("last compiles", rows)


def _files(report: Mapping[str, Any]) -> str:
    named = report.get("files") or {}
    missing = [f"  {name:<24}not there: {reason}" for name, reason in (report.get("missing") or {}).items()]
    lines = [f"  {name:<24}{what}" for name, what in named.items()] + missing
    return "in this directory\n" + "\n".join(lines) if lines else ""


def _table(title: str, rows: Sequence[Sequence[str]]) -> str:
    """Numbers come first and stand to the right; nothing where there is but the heading."""
    if len(rows) < 2:
        return ""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    numbers = next(
        (column for column, cell in enumerate(rows[1]) if cell and not cell[0].isdigit()), len(widths)
    )
    text = [
        "  ".join(
            cell.rjust(width) if column < numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return title + "\n" + "\n".join(f"  {line}" for line in text)


def in_words(amount: float) -> str:
    """Bytes in the largest binary unit that leaves a whole part: `1.5 GiB`."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(amount) < 1024 or unit == "TiB":
            break
        amount /= 1024
    return f"{amount:.0f} B" if unit == "B" else f"{amount:.4g} {unit}"
