"""Rows of a comparison's tables, one value of each run: rates, executables, operations that came or went, memory."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from jaxobs.model.snapshot import executable_size
from jaxobs.report.comparison.finding import Row
from jaxobs.report.record import Record
from jaxobs.vocabulary.units import (
    ABSENT,
    amount,
    byte_size,
    digits,
    duration,
    or_absent,
    percent,
    rough_percent,
    signed_percent,
)

EXECUTABLES_SHOWN: Final = 8
OPERATIONS_SHOWN: Final = 10
LEAST_SHARE: Final = 0.02
"""Least share of the profiled time for an operation to be worth a row."""

MEMORY_CHANGE: Final = 0.05

RATES: Final[tuple[tuple[str, str, Callable[[float], str]], ...]] = (
    ("examples_per_second", "examples/s", digits),
    ("tokens_per_second", "tokens/s", digits),
    ("mfu", "MFU", percent),
    ("hfu", "HFU", percent),
)

Entry = Mapping[str, Any]


def rate_rows(loop: str, before: Record, after: Record) -> Iterator[Row]:
    """Rates over the run, MFU and HFU in its last window, and goodput."""
    one, other = (record.part("snapshot", "loops", loop) for record in (before, after))
    for key, title, write in RATES:
        old, new = _rate(one, key), _rate(other, key)
        if old is not None or new is not None:
            yield _row(title, old, new, write)
    old, new = (record.part("snapshot", "process").get("goodput") for record in (before, after))
    yield _row("goodput", old, new, percent)


def _rate(loop: Entry, key: str) -> float | None:
    """A rate over the whole run where its amount was counted; MFU and HFU are of the last window, half a minute."""
    amount_of, wall = loop.get(key.removesuffix("_per_second")), loop.get("wall_seconds")
    if key.endswith("_per_second"):
        return amount_of / wall if amount_of and wall else None
    return loop.get(key)


def executable_rows(before: Record, after: Record) -> Iterator[Row]:
    """The work and time of the largest executables, one for each function: by device time, or else by FLOPs."""
    one, other = (_by_function(record) for record in (before, after))
    both = {name: (one.get(name), other.get(name)) for name in sorted(one.keys() | other.keys())}
    largest = sorted(both, key=lambda name: max(map(executable_size, filter(None, both[name]))), reverse=True)
    for name in largest[:EXECUTABLES_SHOWN]:
        old, new = both[name]
        took, takes = ("not there" if entry is None else _took(entry) for entry in (old, new))
        if old is None or new is None:
            yield Row(name, took, takes)
            continue
        growth = _growth(old.get("seconds_per_run"), new.get("seconds_per_run"))
        same = "the same" if old.get("executable") == new.get("executable") else "another"
        yield Row(name, took, takes, growth, f"{same} executable")


def _took(entry: Entry) -> str:
    cost = entry.get("cost") or {}
    parts = [duration(entry["seconds_per_run"])] if entry.get("seconds_per_run") else []
    parts += [amount(cost["flops"], "FLOP")] if cost.get("flops") else []
    parts += [byte_size(cost["bytes"])] if cost.get("bytes") else []
    parts += [f"{rough_percent(entry['efficiency'])} of the roof"] if entry.get("efficiency") else []
    return ", ".join(parts) or ABSENT


def _by_function(record: Record) -> dict[str, Entry]:
    """By function, its executable with the most device time, or else with the most FLOPs."""
    found: dict[str, Entry] = {}
    for entry in sorted(record.entries("executables"), key=executable_size, reverse=True):
        found.setdefault(entry["function"], entry)
    return found


def operation_rows(before: Record, after: Record) -> Iterator[Row]:
    """Kinds of operations, by their scope, that only one of the runs has in the executables that differ."""
    if not before.entries("operations") or not after.entries("operations"):
        return
    hashes = [
        {entry.get("executable") for entry in record.entries("executables")} for record in (before, after)
    ]
    one, other = (_operations(record, hashes[0] & hashes[1]) for record in (before, after))
    alone = [(share, key) for key, share in (one | other).items() if (key in one) != (key in other)]
    ranked = sorted(alone, key=lambda pair: (-pair[0], pair[1]))
    for share, key in ranked[:OPERATIONS_SHOWN]:
        if share >= LEAST_SHARE:
            shown = f"{rough_percent(share)} of the time"
            yield Row(" ".join(filter(None, key)), *((shown, "gone") if key in one else ("not there", shown)))


def _operations(record: Record, same: set[object]) -> dict[tuple[str, ...], float]:
    """Shares of time by function, operation (without its number, which each compile may change) and scope."""
    shares: dict[tuple[str, ...], float] = defaultdict(float)
    for entry in record.entries("operations"):
        if entry.get("executable") not in same:
            kind = re.sub(r"[._]\d+", "", str(entry.get("operation") or ""))
            shares[entry.get("function") or "", kind, entry.get("scope") or ""] += float(
                entry.get("share") or 0.0
            )
    return dict(shares)


def memory_rows(before: Record, after: Record) -> Iterator[Row]:
    """The peak of the memory in use: of the fullest device, and of the process."""
    for title, peak in (("fullest device", _device_peak), ("process", _process_peak)):
        old, new = peak(before), peak(after)
        if old is None and new is None:
            continue
        near = old is not None and new is not None and abs(new - old) <= MEMORY_CHANGE * max(old, new)
        yield _row(f"{title}, at most", old, new, byte_size, "about the same" if near else "")


def _process_peak(record: Record) -> float | None:
    return record.part("snapshot", "process", "memory").get("peak_bytes")


def _device_peak(record: Record) -> float | None:
    peaks = [(device.get("memory") or {}).get("peak_bytes") for device in record.entries("devices")]
    return max((peak for peak in peaks if peak is not None), default=None)


def _row(
    title: str, old: float | None, new: float | None, write: Callable[[float], str], verdict: str = ""
) -> Row:
    before, after = (or_absent(value, write) for value in (old, new))
    return Row(title, before, after, _growth(old, new), verdict)


def _growth(old: float | None, new: float | None) -> str:
    return signed_percent(new / old - 1) if old and new else ""
