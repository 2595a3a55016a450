"""The tables of a run, made once: columns with their headings and cells, and the rows for them.

Page, notebook, terminal and summary write them, each in its own way. A cell is plain text, in which words in backquotes
are code, and of which lines below the first are particulars; None stands for what is not known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from jaxobs.model.contents import last_name
from jaxobs.model.cost import is_lower_bound
from jaxobs.model.snapshot import Document, compile_seconds
from jaxobs.report.sentence import as_it_is, without_quotes
from jaxobs.report.text_table import TextTable
from jaxobs.vocabulary.units import ABSENT, amount, byte_size, count, duration, percent, rough_percent, times
from jaxobs.vocabulary.words import PHASES

Row = Mapping[str, Any]
Value = float | str | None


class Column(NamedTuple):
    """A heading, what a row shows below it (None: not known), and whether that is text, which is aligned left."""

    title: str
    show: Callable[[Row], str | None]
    text: bool = False
    value: Callable[[Row], Value] | None = None
    """The value by which rows are sorted; None: they are sorted by the words that are shown."""
    key: str = ""
    """The row's key of what is shown; `KEY_reason` says why that is absent, or with which reserve it is known."""
    whole: Callable[[Row], str | None] | None = None
    """The whole text of which only a part is shown."""


def figure(title: str, name: str, write: Callable[[float], str], part: str = "") -> Column:
    """A column of the number `row[name]`, or of `row[part][name]`, as `write` formats it."""

    def value(row: Row) -> float | None:
        values = row.get(part) or {} if part else row
        found: float | None = values.get(name)
        return found

    return computed(title, value, write)._replace(key=part or name)


def computed(title: str, value: Callable[[Row], float | None], write: Callable[[float], str]) -> Column:
    """A column of a number that is computed from the row, as `write` formats it."""
    return Column(title, lambda row: None if (found := value(row)) is None else write(found), value=value)


def text(title: str, name: str) -> Column:
    """A column of the words `row[name]`."""
    return Column(title, lambda row: str(row[name]) if row.get(name) else None, text=True)


def name(title: str, key: str) -> Column:
    """A column of the name `row[key]` from the user's program, in which nothing is a mark."""
    return Column(title, lambda row: as_it_is(row[key]) if row.get(key) else None, text=True)


def place(title: str, name: str) -> Column:
    """A column of a line of source, such as `train.py:12` for `/home/ada/train.py:12`."""
    return Column(
        title, lambda row: last_name(row.get(name)) or None, text=True, whole=lambda row: row.get(name)
    )


def words(column: Column, row: Row) -> str:
    """What a row shows in a column, without backquotes; empty if it is not known."""
    return without_quotes(column.show(row) or "")


def known_columns(columns: Sequence[Column], rows: Sequence[Row]) -> list[Column]:
    """The columns in which some row shows something."""
    return [column for column in columns if any(column.show(row) for row in rows)]


def plain_table(
    columns: Sequence[Column],
    rows: Sequence[Row],
    *,
    title: str = "",
    caption: str = "",
    write: Callable[[Column, Row], str] = lambda column, row: words(column, row) or ABSENT,
) -> TextTable:
    """The rows as a table of plain text, whose cells `write` makes: the words, with `–` for what is not known."""
    left = [column.title for column in columns if column.text]
    table = TextTable([column.title for column in columns], title=title, left=left, caption=caption)
    for row in rows:
        table.add(*(write(column, row) for column in columns))
    return table


def sorted_rows(rows: Sequence[Row], column: Column, *, descending: bool) -> list[Row]:
    """The rows sorted by a column; rows whose value is not known come last in either direction. Stable."""
    value = column.value or (lambda row: words(column, row).casefold() or None)
    known = [row for row in rows if value(row) is not None]
    rest = [row for row in rows if value(row) is None]
    return sorted(known, key=lambda row: value(row) or 0.0, reverse=descending) + rest


# --- loops ---


def _step_time(loop: Row) -> str | None:
    """The step time, which says if it is the host's."""
    host = " (host)" if loop.get("step_seconds_source") == "host" else ""
    return None if loop.get("step_seconds") is None else f"{duration(loop['step_seconds'])}{host}"


LOOP_FIGURES: Final = (
    figure("step time", "step_seconds", duration)._replace(show=_step_time),
    figure("steps/s", "steps_per_second", amount),
    figure("tokens/s", "tokens_per_second", amount),
    figure("examples/s", "examples_per_second", amount),
    figure("MFU", "mfu", percent),
    figure("HFU", "hfu", percent),
)
"""The main figures of a loop."""


def recorded(loop: Document) -> Iterator[tuple[str, float]]:
    """The values recorded by the user that are known."""
    found = (loop.get("recorded") or {}).items()
    yield from ((name, value) for name, value in found if isinstance(value, int | float))


def gone_wrong(loop: Document) -> Iterator[tuple[str, bool, str]]:
    """The values recorded by the user that are not finite, or leapt: name, whether it is finite, and what is said."""
    values = loop.get("recorded") or {}
    for name, value in values.items():
        if not isinstance(value, str) and values.get(f"{name}_reason"):
            yield name, value is not None, str(values[f"{name}_reason"])


PARTS: Final = (
    text("part", "name"),
    figure("a step", "seconds", duration),
    figure("of the time", "share", rough_percent),
)
"""The parts of a step."""

# --- compilations ---


def functions(document: Document) -> list[dict[str, Any]]:
    """A row for each compiled function, the one that took longest first; `all` is its seconds in all phases."""
    found = document.get("functions") or {}
    rows = [{"name": name, **function, "all": compile_seconds(function)} for name, function in found.items()]
    return sorted(rows, key=lambda row: (-float(row["all"]), row["name"]))


def recompilations(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """A row for each change that caused recompilations of these functions, the most expensive first."""
    again = [{"name": row["name"], **each} for row in rows for each in row.get("recompilations") or ()]
    return sorted(again, key=lambda row: -float(row.get("seconds") or 0.0))


def what_changed(row: Row) -> str | None:
    """What changed, such as `x: float32[192,512] → float32[224,512]`; another one where both read alike."""
    old, new, argument = (row.get(key) for key in ("old", "new", "argument"))
    if old is None and new is None:
        return argument
    shown = f"another `{new}`" if old == new else f"`{old or '?'}` → `{new or '?'}`"
    return f"{argument}: {shown}" if argument else shown


def _causes(row: Row) -> str:
    """How often each cause occurred, the most frequent first, such as `2 shape, 1 dtype`."""
    counts: Counter[str] = Counter()
    for found in row.get("recompilations") or ():
        counts[str(found.get("cause")).replace("_", " ")] += found.get("count") or 0
    return ", ".join(f"{number} {cause}" for cause, number in counts.most_common() if number)


def _seconds(spent: float) -> str:
    return duration(spent) if spent else ""


AGAIN: Final = (
    name("function", "name"),
    Column("why", lambda row: str(row.get("cause") or "").replace("_", " "), text=True),
    Column("what changed", what_changed, text=True),
    place("called at", "call_site"),
    Column("", lambda row: times(row.get("count") or 0), value=lambda row: row.get("count") or 0),
    figure("cost", "seconds", _seconds),
)
FUNCTIONS: Final = (
    name("function", "name"),
    figure("compiles", "compilations", count),
    Column("again", _causes, text=True, value=lambda row: row.get("recompilation_count")),
    figure("seconds", "all", _seconds),
    *(figure(phase.replace("_", " "), phase, _seconds, "seconds") for phase in PHASES),
)

# --- executables and operations ---

CLOSE: Final = 0.25
"""Confidence below which the runner-up is named: it has at least 3/5 of the label's weight, or samples are few."""

NO_VERDICT: Final = ("unknown", "unmodelled")


def label_of(verdict: Document | None) -> str:
    """The word for what limits an executable."""
    return str((verdict or {}).get("label") or "unknown")


def _limit(row: Row) -> str | None:
    """The bottleneck, such as `compute`, or `compute or latency` if the two are close."""
    verdict = row.get("bottleneck")
    if not verdict:
        return None
    label, second = label_of(verdict), verdict.get("runner_up")
    close = second and (verdict.get("confidence") or 0.0) < CLOSE and label not in NO_VERDICT
    return f"{label} or {second}" if close else label


def _flops(row: Row) -> str | None:
    cost = row.get("cost") or {}
    inexact = "≥ " if is_lower_bound(cost.get("inexact_reasons") or ()) else "≈ "
    least = "" if cost.get("exact", True) else inexact
    return None if cost.get("flops") is None else f"{least}{amount(cost['flops'])}"


EXECUTABLES: Final = (
    name("function", "function"),
    Column("executable", lambda row: str(row.get("executable") or "")[:8], text=True),
    figure("runs", "runs", count),
    figure("per run", "seconds_per_run", duration),
    figure("FLOP", "flops", amount, "cost")._replace(show=_flops),
    figure("bytes", "bytes", lambda size: amount(size, "B"), "cost"),
    figure("FLOP/byte", "intensity", amount, "cost"),
    figure("FLOP/s", "achieved_flops_per_second", amount),
    figure("attainable", "attainable_flops_per_second", amount),
    figure("efficiency", "efficiency", percent),
    Column("limited by", _limit, text=True),
)
OPERATIONS: Final = (
    name("operation", "operation"),
    name("function", "function"),
    name("scope", "scope"),
    place("line", "source"),
    figure("of device time", "share", percent),
    figure("FLOP/byte", "intensity", amount),
    figure("FLOP/s", "achieved_flops_per_second", amount),
    figure("efficiency", "efficiency", percent),
    text("limited by", "bottleneck"),
)

# --- devices, memory, sources ---


def alike_devices(found: Sequence[Row]) -> list[dict[str, Any]]:
    """A row for each group of devices of which nothing that is shown differs but their number."""
    rows: dict[tuple[str | None, ...], dict[str, Any]] = {}
    for device in found:
        key = str(device.get("kind")), _peaks(device), _clocks(device)
        row = rows.setdefault(key, {**device, "numbers": []})
        row["numbers"].append(str(device.get("device")))
    return list(rows.values())


def rate_unit(dtype: str) -> str:
    """The unit of a peak: integer work is no FLOP."""
    return "OP/s" if "int" in dtype else "FLOP/s"


def _peaks(row: Row) -> str | None:
    """The peaks of memory and of the element types that were seen; the other peaks are in the snapshot."""
    peaks = row.get("peaks") or {}
    matrix = peaks.get("matrix") or {}
    seen = [roof["dtype"] for roof in row.get("roofs") or () if roof["dtype"] in matrix] or list(matrix)
    found = [(dtype, matrix[dtype], rate_unit(dtype)) for dtype in seen]
    found += [("memory", peaks["memory"], "B/s")] if peaks.get("memory") else []
    told = (f"{name} {amount(peak['value'], unit)} ({peak['provenance']})" for name, peak, unit in found)
    devices = peaks.get("shared_by") or 1
    shared = f"; its share of a machine that {devices} emulated devices have in common" if devices > 1 else ""
    return ", ".join(told) + shared if found else None


def _clocks(row: Row) -> str | None:
    clocks: Document = row.get("clocks") or {}
    shares = (("utilisation", clocks.get("utilization_ratio")), ("clock at", clocks.get("clock_ratio")))
    parts = [f"{title} {rough_percent(share)}" for title, share in shares if share is not None]
    if held := clocks.get("throttle_reasons"):
        parts.append(f"held down by {', '.join(held)}")
    return ", ".join(parts) or None


def _state(row: Row) -> str:
    return "down" if row.get("up") is False else "up" if row.get("up") else "nothing here"


DEVICES: Final = (
    Column("device", lambda row: ", ".join(row["numbers"]), text=True),
    text("kind", "kind"),
    Column("peaks", _peaks, text=True),
    Column("now", _clocks, text=True),
)
MEMORY: Final = (
    text("device", "name"),
    figure("in use", "in_use_bytes", byte_size),
    figure("at most", "peak_bytes", byte_size),
    figure("limit", "limit_bytes", byte_size),
)
LIVE_LINES: Final = (
    place("made at", "line"),
    figure("arrays", "count", count),
    figure("bytes", "bytes", byte_size),
)
LIVE_SHAPES: Final = (
    Column("shape", lambda row: f"{row.get('dtype')} {row.get('shape')}", text=True),
    *LIVE_LINES,
)
SOURCES: Final = (
    text("source", "name"),
    text("kind", "kind"),
    Column("state", _state, text=True),
    text("why", "reason"),
)
