"""The tables of a summary: loops, compiled functions, what was compiled again, executables, operations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from jaxobs.model.snapshot import Document, compile_seconds, executable_size
from jaxobs.report.summary.reasons import MARK, Reasons
from jaxobs.report.text_table import TextTable, end_of
from jaxobs.vocabulary.units import ABSENT, amount, count, duration, or_absent, percent
from jaxobs.vocabulary.words import PHASES

LARGEST_EXECUTABLES: Final = 8
"""Rows of executables: this many fit a screen together with the other tables."""

LARGEST_OPERATIONS: Final = 3
"""Rows of operations: those worth changing the program for; the rest are in the document."""

LONGEST_SCOPE: Final = 40
"""Width of a scope in columns."""

DEAREST_FUNCTIONS: Final = 20
"""Rows of compiled functions: a function that is not among the twenty slowest to compile hardly delays a start."""

DEAREST_RECOMPILATIONS: Final = 8
"""Rows of recompilations: those that cost most are worth changing the program for; the rest are in the document."""

CLOSE: Final = 0.25
"""Confidence below which the runner-up is named: it has at least 3/5 of the label's weight, or samples are few."""

SAMPLED: Final = "runs and time in profiler windows alone: a sample of all"


def loops(document: Document, reasons: Reasons) -> TextTable | None:
    """Steps, rates, MFU and values recorded by the user, for each loop."""
    found = document.get("loops") or {}
    if not found:
        return None
    work = [
        word
        for word in ("tokens", "examples")
        if any(loop.get(f"{word}_per_second") is not None for loop in found.values())
    ]
    recorded = dict.fromkeys(
        name
        for loop in found.values()
        for name, value in (loop.get("recorded") or {}).items()
        if not isinstance(value, str)  # the reason of a value that is absent
    )
    rates = [f"{word}/s" for word in work]
    table = TextTable(
        ("loop", "steps", "step time", "steps/s", *rates, "MFU", "HFU", *recorded), title="loops"
    )
    for name, loop in found.items():
        shown = _row(loop, name if len(found) > 1 else "", reasons)
        step_time = shown("step_seconds", duration)
        source = " (host)" if loop.get("step_seconds_source") == "host" and step_time != ABSENT else ""
        cells = (
            shown("steps", count),
            step_time + source,
            shown("steps_per_second", amount),
            *(shown(f"{word}_per_second", amount) for word in work),
            shown("mfu", percent),
            shown("hfu", percent),
            *(or_absent((loop.get("recorded") or {}).get(key), amount) for key in recorded),
        )
        if not _is_silent(cells):
            table.add(name, *cells)
    return table if table.rows else None


def functions(document: Document) -> TextTable | None:
    """What was compiled, and how long each phase took."""
    found = document.get("functions") or {}
    if not found:
        return None
    titles = [phase.replace("_", " ") for phase in PHASES]
    columns = ("function", "compiles", "recompiles", "seconds", *titles)
    table = TextTable(columns, title="compiled functions", left=("recompiles",))
    rows = [(compile_seconds(function), name, function) for name, function in found.items()]
    rows.sort(key=lambda row: (-row[0], row[1]))
    for spent, name, function in rows[:DEAREST_FUNCTIONS]:
        seconds = function.get("seconds") or {}
        table.add(
            name,
            or_absent(function.get("compilations"), count),
            _causes(function.get("recompilations")),
            f"{spent:.3f}",
            *(f"{seconds.get(phase) or 0.0:.3f}" for phase in PHASES),
        )
    left_out = (document.get("functions_left_out") or 0) + len(rows[DEAREST_FUNCTIONS:])
    if left_out:
        spent = sum(row[0] for row in rows[DEAREST_FUNCTIONS:])
        spent += document.get("functions_left_out_seconds") or 0.0
        table.caption = f"{left_out:,} cheaper ones are not shown, {spent:.3f} seconds in all"
    return table


def compiled_again(document: Document) -> TextTable | None:
    """The most expensive recompilations: which argument changed, from what to what, and where the call was."""
    found = [
        (row, name)
        for name, function in (document.get("functions") or {}).items()
        for row in function.get("recompilations") or []
    ]
    if not found:
        return None
    found.sort(key=lambda pair: -(pair[0].get("seconds") or 0.0))
    left = ("cause", "argument", "from", "to", "called at")
    table = TextTable(
        ("function", "cause", "argument", "from", "to", "times", "seconds", "called at"),
        title="compiled again", left=left,
    )  # fmt: skip
    for row, name in found[:DEAREST_RECOMPILATIONS]:
        change = [str(row.get(key) or ABSENT) for key in ("argument", "old", "new")]
        site = str(row.get("call_site") or ABSENT).rpartition("/")[2]
        table.add(
            name, str(row["cause"]), *change, count(row["count"]), f"{row.get('seconds') or 0.0:.3f}", site
        )
    if len(found) > DEAREST_RECOMPILATIONS:
        table.caption = f"{len(found) - DEAREST_RECOMPILATIONS} cheaper ones are not shown"
    return table


def executables(document: Document, reasons: Reasons) -> TextTable | None:
    """The executables with the most device time; those of a function that differ only in their hash share a row."""
    found = sorted(document.get("executables") or [], key=executable_size, reverse=True)
    if not found:
        return None
    columns = ("function", "executable", "runs", "FLOPs", "FLOP/byte", "per run", "efficiency", "bottleneck")
    table = TextTable(columns, title="executables", left=("bottleneck",))
    rows: dict[tuple[str, ...], list[str]] = {}
    left_out = silent = 0
    for executable in found:
        function, cells = _executable(executable, Reasons())
        if _is_silent(cells):
            silent += 1
        elif (function, *cells) not in rows and len(rows) >= LARGEST_EXECUTABLES:
            left_out += 1
        else:
            _executable(executable, reasons)  # only now note the reasons, as the row is shown
            rows.setdefault((function, *cells), []).append(str(executable.get("executable"))[:8])
    for (function, *rest), hashes in rows.items():
        table.add(function, hashes[0] if len(hashes) == 1 else f"{len(hashes)} alike", *rest)
    left = [f"{left_out} smaller ones"] if left_out else []
    left += [f"{silent} of which nothing is known"] if silent else []
    table.caption = f"{' and '.join(left)} are not shown" if left else ""
    return table if rows else None


def _is_silent(cells: Sequence[str]) -> bool:
    """Whether a row has nothing to show, so that it is left out of its table."""
    return all(cell in {ABSENT, *NO_VERDICT} for cell in cells)


def _executable(executable: Document, reasons: Reasons) -> tuple[str, tuple[str, ...]]:
    """The function, and the cells to the right of that of the hash."""
    function = str(executable.get("function"))
    shown = _row(executable, function, reasons)
    cost = executable.get("cost") or {}
    if executable.get("cost") is None:
        shown("cost", amount)  # notes the reason of the columns made from it
    bound = "" if cost.get("exact", True) else "≥ "
    runs, per_run = shown("runs", count), shown("seconds_per_run", duration)
    if executable.get("source") == "sampled" and executable.get("runs") is not None:
        runs = f"{runs} {MARK}"
        reasons.note(MARK, SAMPLED, "runs", function)
    return function, (
        runs,
        bound + or_absent(cost.get("flops"), amount),
        or_absent(cost.get("intensity"), amount),
        per_run,
        shown("efficiency", percent),
        _verdict(executable.get("bottleneck")),
    )


def operations(document: Document, reasons: Reasons) -> TextTable | None:
    """The operations that took most device time in the profiler windows that were read."""
    found = document.get("operations") or []
    if not found:
        return None
    largest = found[:LARGEST_OPERATIONS]
    # A column that is the same in every row, or empty in all, is left out.
    functions = {operation.get("function") for operation in largest}
    titles = [
        title
        for title in ("scope", "line", "function")
        if any(_where(operation)[title] for operation in largest)
        and (title != "function" or len(functions) > 1)
    ]
    table = TextTable(
        ("operation", *titles, "share", "FLOP/s", "efficiency", "bottleneck"),
        title="largest operations in profiler windows" if len(functions) > 1 or None in functions
        else f"largest operations of {next(iter(functions))} in profiler windows",
        left=(*titles, "bottleneck"),
    )  # fmt: skip
    for operation in largest:
        shown = _row(operation, str(operation.get("operation")), reasons)
        cells = (
            shown("share", percent),
            shown("achieved_flops_per_second", amount),
            shown("efficiency", percent),
            str(operation.get("bottleneck") or ABSENT),
        )
        if not _is_silent(cells):
            where = _where(operation)
            table.add(str(operation.get("operation")), *(where[title] or ABSENT for title in titles), *cells)
    return table if table.rows else None


def _where(operation: Document) -> dict[str, str]:
    """Where an operation is, by the title of the column; empty where it is not known."""
    scope, source, function = (str(operation.get(key) or "") for key in ("scope", "source", "function"))
    # The innermost part of a long scope says more than its beginning.
    return {"scope": end_of(scope, LONGEST_SCOPE), "line": source.rpartition("/")[2], "function": function}


def _row(values: Document, row: str, reasons: Reasons) -> Callable[[str, Callable[[float], str]], str]:
    return lambda key, write: reasons.cell(values, key, write, row)


def _causes(recompilations: Any) -> str:
    """How often each cause occurred, the most frequent first, such as `2 shape, 1 dtype`."""
    counts: Counter[str] = Counter()
    for found in recompilations or []:
        counts[str(found["cause"])] += found["count"]
    return ", ".join(f"{count} {cause}" for cause, count in counts.most_common() if count) or "0"


def _verdict(bottleneck: Document | None) -> str:
    """The bottleneck, such as `compute`, or `compute or latency` where the two are close."""
    label = (bottleneck or {}).get("label")
    if not bottleneck or not label:
        return ABSENT
    close = bottleneck.get("runner_up") and (bottleneck.get("confidence") or 0.0) < CLOSE
    return f"{label} or {bottleneck['runner_up']}" if close and label not in NO_VERDICT else str(label)


NO_VERDICT: Final = ("unknown", "unmodelled")
