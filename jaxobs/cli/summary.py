"""A snapshot's document as a text for people: tables of loops, compiled functions, the largest executables.

A value that is not known is printed as `–`, and each reason once below its table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from jaxobs.cli.tables import PLAIN_WIDTH, add_row, new_table, to_text

if TYPE_CHECKING:
    from rich.table import Table

ABSENT = "–"
LARGEST_EXECUTABLES = 8
"""So many rows fit a screen beside the other two tables."""

_NAMES = {"mfu": "MFU", "hfu": "HFU", "step_seconds": "step time", "seconds": "time per run"}

Document = Mapping[str, Any]
Reasons = dict[str, list[str]]
"""Why something is absent, and what."""


def render(document: Document, *, width: int = PLAIN_WIDTH, colour: bool = False) -> str:
    """The summary of a snapshot's document, no newline at its end; escape sequences only with `colour`."""
    if not document.get("process"):
        return f"jaxobs: no summary: {document.get('process_reason') or 'the snapshot is empty'}"
    return to_text(_parts(document), width=width, colour=colour)


def _parts(document: Document) -> Iterator[Table | str]:
    yield _headline(document)
    for build in (_loops, _functions, _executables):
        reasons: Reasons = {}
        table = build(document, reasons)
        if table is None:
            continue
        yield ""
        yield table
        for reason, what in reasons.items():
            yield f"  {ABSENT} {', '.join(what)}: {reason}"
        if build is _loops:
            for name, loop in document["loops"].items():
                yield f"  bottleneck of {name}: {_bottleneck(loop.get('bottleneck'))}"
    for advice in document.get("advice") or []:
        yield f"→ {advice.get('text') or advice}" if isinstance(advice, Mapping) else f"→ {advice}"


def _headline(document: Document) -> str:
    process = document["process"]
    parts = [f"{_seconds(process.get('seconds'))} observed", f"jax {process.get('jax') or 'unknown'}"]
    parts += [str(process["platform"])] if process.get("platform") else []
    agent = document.get("agent") or {}
    for word in ("dropped", "refused"):
        parts += [f"{agent[f'events_{word}']:,} events {word}"] if agent.get(f"events_{word}") else []
    failed = [name for name, source in (document.get("sources") or {}).items() if not source.get("up", True)]
    parts += [f"failed: {', '.join(failed)}"] if failed else []
    return "jaxobs: " + ", ".join(parts)


def _loops(document: Document, reasons: Reasons) -> Table | None:
    loops = document.get("loops") or {}
    if not loops:
        return None
    work = [
        word
        for word in ("tokens", "examples")
        if any(loop.get(f"{word}_per_second") is not None for loop in loops.values())
    ]
    recorded = list(
        dict.fromkeys(
            name
            for loop in loops.values()
            for name, value in (loop.get("recorded") or {}).items()
            if not isinstance(value, str)  # the reason of a value that is absent
        )
    )
    rates = [f"{word}/s" for word in work]
    table = new_table("loop", "steps", "step time", "steps/s", *rates, "MFU", "HFU", *recorded, title="loops")
    for name, loop in loops.items():
        shown = _shower(loop, name if len(loops) > 1 else "", reasons)
        source = " (host)" if loop.get("step_seconds_source") == "host" else ""
        add_row(
            table,
            name,
            shown("steps", _count),
            shown("step_seconds", _seconds) + source,
            shown("steps_per_second", _number),
            *(shown(f"{word}_per_second", _number) for word in work),
            shown("mfu", _percent),
            shown("hfu", _percent),
            *(_or_absent((loop.get("recorded") or {}).get(key), _number) for key in recorded),
        )
    return table


def _functions(document: Document, reasons: Reasons) -> Table | None:  # noqa: ARG001  # all is known
    functions = document.get("functions") or {}
    if not functions:
        return None
    phases = ("trace", "lower", "backend", "cache_read")
    titles = [phase.replace("_", " ") for phase in phases]
    table = new_table(
        "function",
        "compiles",
        "recompiles",
        "seconds",
        *titles,
        title="compiled functions",
        left=["recompiles"],
    )
    rows = [(_total(function.get("seconds")), name, function) for name, function in functions.items()]
    for total, name, function in sorted(rows, key=lambda row: (-row[0], row[1])):
        causes = function.get("recompilations") or {}
        seconds = function.get("seconds") or {}
        add_row(
            table,
            name,
            _or_absent(function.get("compilations"), _count),
            ", ".join(f"{count} {cause}" for cause, count in causes.items() if count) or "0",
            f"{total:.3f}",
            *(f"{seconds.get(phase) or 0.0:.3f}" for phase in phases),
        )
    return table


def _executables(document: Document, reasons: Reasons) -> Table | None:
    executables = list(document.get("executables") or [])
    if not executables:
        return None
    executables.sort(key=_weight, reverse=True)
    columns = ("function", "executable", "runs", "FLOPs", "FLOP/byte", "per run", "efficiency", "bottleneck")
    table = new_table(*columns, title="executables", left=["bottleneck"])
    for executable in executables[:LARGEST_EXECUTABLES]:
        shown = _shower(executable, "", reasons)
        cost = executable.get("cost") or {}
        absent = ["cost"] if executable.get("cost") is None else []
        absent += ["seconds"] if executable.get("seconds_per_run") is None else []
        for key in absent:
            shown(key, _number)  # notes the reason of the columns made from it
        bound = "" if cost.get("exact", True) else "≥ "
        add_row(
            table,
            str(executable.get("function")),
            str(executable.get("executable"))[:8],
            shown("runs", _count),
            bound + _or_absent(cost.get("flops"), _number),
            _or_absent(cost.get("intensity"), _number),
            _or_absent(executable.get("seconds_per_run"), _seconds),
            shown("efficiency", _percent),
            _bottleneck(executable.get("bottleneck")),
        )
    if len(executables) > LARGEST_EXECUTABLES:
        table.caption = f"{len(executables) - LARGEST_EXECUTABLES} smaller ones are not shown"
    return table


def _weight(executable: Document) -> tuple[float, float]:
    """Device seconds decide what is largest, else FLOPs."""
    return executable.get("seconds") or 0.0, (executable.get("cost") or {}).get("flops") or 0.0


def _shower(values: Document, whose: str, reasons: Reasons) -> Callable[[str, Callable[[float], str]], str]:
    """A writer of one of the values, which notes the reason where it is absent."""

    def shown(key: str, write: Callable[[float], str]) -> str:
        value = values.get(key)
        if value is None and values.get(f"{key}_reason"):
            what = _NAMES.get(key) or key.replace("_", " ")
            what += f" of {whose}" if whose else ""
            noted = reasons.setdefault(str(values[f"{key}_reason"]), [])
            noted += [what] if what not in noted else []
        return _or_absent(value, write)

    return shown


def _or_absent(value: float | None, write: Callable[[float], str]) -> str:
    return ABSENT if value is None else write(value)


def _bottleneck(bottleneck: Document | None) -> str:
    if not bottleneck or not bottleneck.get("label"):
        return ABSENT
    text = str(bottleneck["label"])
    if bottleneck.get("confidence"):
        text += f" ({_percent(bottleneck['confidence'])} sure"
        text += f", then {bottleneck['runner_up']})" if bottleneck.get("runner_up") else ")"
    return text


def _total(phases: Mapping[str, float | None] | None) -> float:
    return sum(seconds or 0.0 for seconds in (phases or {}).values())


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.3g} %" if ratio < 9.995 else f"{100 * ratio:,.0f} %"


def _number(value: float) -> str:
    """Three significant digits, with an SI prefix from a thousand on."""
    if value != 0 and abs(value) < 1e-3:
        return f"{value:.2e}"
    for prefix in ("", " k", " M", " G", " T", " P"):
        if abs(value) < 999.5:
            return f"{value:.3g}{prefix}"
        value /= 1000
    return f"{value:.3g} E"


def _seconds(value: float | None) -> str:
    """Three significant digits in seconds, milliseconds or microseconds."""
    if value is None:
        return "unknown time"
    if value >= 999.5:
        return f"{value:,.0f} s"
    size, unit = next(
        ((size, unit) for size, unit in ((1.0, "s"), (1e-3, "ms")) if value >= size), (1e-6, "µs")
    )
    return f"{value / size:.3g} {unit}"
