"""A snapshot's document as a text for people: tables of loops, compiled functions, the largest executables.

A value that is not known is printed as `–`, and each reason once below its table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jaxobs.model.text_table import PLAIN_WIDTH, TextTable, printable, to_text

ABSENT = "–"
LARGEST_EXECUTABLES = 8
"""So many rows fit a screen beside the other two tables."""

DEAREST_RECOMPILATIONS = 8
"""The rest are in the document; those that cost most are what is worth a change of the program."""

_NAMES = {"mfu": "MFU", "hfu": "HFU", "step_seconds": "step time", "seconds": "time per run"}

Document = Mapping[str, Any]
Reasons = dict[str, list[str]]
"""Why something is absent, and what."""


def render(document: Document, *, width: int = PLAIN_WIDTH, bold: bool = False) -> str:
    """The summary of a snapshot's document, no newline at its end; escape sequences only with `bold`."""
    if not document.get("process"):
        return f"jaxobs: no summary: {document.get('process_reason') or 'the snapshot is empty'}"
    return to_text(_parts(document), width=width, bold=bold)


def digest(document: Document) -> str:
    """The same in one line: each loop's steps, step time, MFU and bottleneck, and what was compiled."""
    if not document.get("process"):
        return str(document.get("process_reason") or "nothing is known")
    parts = []
    for name, loop in (document.get("loops") or {}).items():
        words = [f"{name}: {_or_absent(loop.get('steps'), _count)} steps"]
        words += [f"{_seconds(loop['step_seconds'])} a step"] if loop.get("step_seconds") is not None else []
        words += [f"MFU {_percent(loop['mfu'])}"] if loop.get("mfu") is not None else []
        label = (loop.get("bottleneck") or {}).get("label")
        parts.append(", ".join([*words, *([f"bottleneck {label}"] if label else [])]))
    functions = document.get("functions") or {}
    total = sum(_total(function.get("seconds")) for function in functions.values())
    parts += [f"{len(functions)} functions compiled in {_seconds(total)}"] if functions else []
    return printable("; ".join(parts) or "nothing has run yet")


def _parts(document: Document) -> Iterator[TextTable | str]:
    yield _headline(document)
    for build in (_loops, _functions, _recompiled, _executables):
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
    advice = document.get("advice") or []
    yield from [""] if advice else []
    for piece in advice:
        yield f"→ {piece['sentence']}" + (f" {piece['remedy']}" if piece.get("remedy") else "")


def _headline(document: Document) -> str:
    process = document["process"]
    parts = [f"{_seconds(process.get('seconds'))} observed", f"jax {process.get('jax') or 'unknown'}"]
    parts += [str(process["platform"])] if process.get("platform") else []
    agent = document.get("agent") or {}
    for word in ("dropped", "refused"):
        parts += [f"{agent[f'events_{word}']:,} events {word}"] if agent.get(f"events_{word}") else []
    parts += [f"metrics at {process['address']}"] if process.get("address") else []
    # A source whose hardware or library is not here is neither up nor down.
    failed = [name for name, source in (document.get("sources") or {}).items() if source.get("up") is False]
    parts += [f"failed: {', '.join(failed)}"] if failed else []
    return "jaxobs: " + ", ".join(parts)


def _loops(document: Document, reasons: Reasons) -> TextTable | None:
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
    table = TextTable(
        ("loop", "steps", "step time", "steps/s", *rates, "MFU", "HFU", *recorded), title="loops"
    )
    for name, loop in loops.items():
        shown = _shower(loop, name if len(loops) > 1 else "", reasons)
        source = " (host)" if loop.get("step_seconds_source") == "host" else ""
        table.add(
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


def _functions(document: Document, reasons: Reasons) -> TextTable | None:  # noqa: ARG001  # all is known
    functions = document.get("functions") or {}
    if not functions:
        return None
    phases = ("trace", "lower", "backend", "cache_read")
    titles = [phase.replace("_", " ") for phase in phases]
    columns = ("function", "compiles", "recompiles", "seconds", *titles)
    table = TextTable(columns, title="compiled functions", left=("recompiles",))
    rows = [(_total(function.get("seconds")), name, function) for name, function in functions.items()]
    for total, name, function in sorted(rows, key=lambda row: (-row[0], row[1])):
        seconds = function.get("seconds") or {}
        table.add(
            name,
            _or_absent(function.get("compilations"), _count),
            _causes(function.get("recompilations")),
            f"{total:.3f}",
            *(f"{seconds.get(phase) or 0.0:.3f}" for phase in phases),
        )
    return table


def _recompiled(document: Document, reasons: Reasons) -> TextTable | None:  # noqa: ARG001  # all is known
    """What was compiled again for most seconds: which argument changed, from what to what, called from where."""
    functions = document.get("functions") or {}
    found = [
        (row, name) for name, function in functions.items() for row in function.get("recompilations") or []
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
        told = [str(row.get(key) or ABSENT) for key in ("argument", "old", "new")]
        site = str(row.get("call_site") or ABSENT).rpartition("/")[2]
        table.add(
            name, str(row["cause"]), *told, _count(row["count"]), f"{row.get('seconds') or 0.0:.3f}", site
        )
    if len(found) > DEAREST_RECOMPILATIONS:
        table.caption = f"{len(found) - DEAREST_RECOMPILATIONS} cheaper ones are not shown"
    return table


def _causes(recompilations: Any) -> str:
    """`2 shape, 1 dtype`: how often for each cause, the most frequent first."""
    counts: Counter[str] = Counter()
    for found in recompilations or []:
        counts[str(found["cause"])] += found["count"]
    return ", ".join(f"{count} {cause}" for cause, count in counts.most_common() if count) or "0"


def _executables(document: Document, reasons: Reasons) -> TextTable | None:
    executables = list(document.get("executables") or [])
    if not executables:
        return None
    executables.sort(key=_weight, reverse=True)
    columns = ("function", "executable", "runs", "FLOPs", "FLOP/byte", "per run", "efficiency", "bottleneck")
    table = TextTable(columns, title="executables", left=("bottleneck",))
    for executable in executables[:LARGEST_EXECUTABLES]:
        shown = _shower(executable, "", reasons)
        cost = executable.get("cost") or {}
        absent = ["cost"] if executable.get("cost") is None else []
        absent += ["seconds"] if executable.get("seconds_per_run") is None else []
        for key in absent:
            shown(key, _number)  # notes the reason of the columns made from it
        bound = "" if cost.get("exact", True) else "≥ "
        table.add(
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
