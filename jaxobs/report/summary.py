"""A snapshot as text for people: in full for the end of a run, and in one line.

A value that is not known is printed as `–`, one with a reserve has a `*`, and each reason stands once below all tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from jaxobs.model.snapshot import (
    Document,
    compiling_lines,
    devices_with_memory,
    executable_size,
    fullest,
    longest_loops,
    main_thread_lines,
    waiting_for_device,
)
from jaxobs.report import tables
from jaxobs.report.compile_explained import long_compiles
from jaxobs.report.flame_graph import in_words
from jaxobs.report.sentence import (
    hang_sentence,
    is_young,
    loop_sentence,
    plain,
    slowdown_sentence,
    spent_by_part,
    without_quotes,
)
from jaxobs.report.tables import NO_VERDICT, Column, Row, known_columns, words
from jaxobs.report.text_table import PLAIN_WIDTH, TextTable, end_of, first_of, to_text, wrapped
from jaxobs.report.view import VISIBLE, View, advice, answer, memory_in_words
from jaxobs.vocabulary.units import ABSENT, amount, byte_size, count, duration, or_absent, rough_percent

MARK: Final = "*"
"""Marks a value that has a reason beside it, such as an MFU above 1, a lower bound, or a sample."""

MANY_SAMPLES: Final = 30
"""Samples from which on their number is not mentioned: of fewer a share of a half is off by nine points or more."""

_MEANINGS: Final = {ABSENT: "is not known", MARK: "is known with a reserve"}

_TITLES: Final = {"cost": "cost", "seconds_per_run": "time per run"}
"""What columns are called in reasons where their titles alone would not be understood, by key."""

ROWS_NAMED: Final = 4
"""Most rows named with a reason: one that holds for more rows mostly holds for all."""

MAX_SHARES: Final = 4

MAX_EXECUTABLES: Final = 8
"""Rows of executables: this many fit a screen together with the other tables."""

MAX_OPERATIONS: Final = 3
"""Rows of operations: those worth changing the program for; the rest are in the document."""

MAX_FUNCTIONS: Final = 20
"""Rows of compiled functions: a function that is not among the twenty slowest to compile hardly delays a start."""

MAX_AGAIN: Final = 8
"""Rows of recompilations: those that cost most are worth changing the program for; the rest are in the document."""

MAX_REFUSALS: Final = 3
MAX_LINES: Final = 4
SCOPE_WIDTH: Final = 40
SENTENCE_WIDTH: Final = 100
"""Most columns of a sentence; longer lines are hard to read."""

MIN_WIDTH: Final = 20
"""Fewest columns that are written for, however narrow a summary is asked for."""

SAMPLED: Final = "runs and time in profiler windows alone: a sample of all"


class ReasonsBelow:
    """The reasons noted while tables are written, each of which is written once below all tables."""

    def __init__(self) -> None:
        self._noted: dict[tuple[str, str], dict[str, dict[str, None]]] = {}

    def __contains__(self, part: str) -> bool:
        """Whether one of the reasons contains these words."""
        return any(part in reason for _, reason in self._noted)

    def cells(self, name: str = "") -> Callable[[Column, Row], str]:
        """Writes what a row shows, with its reason noted; a value that has a reason is marked.

        The name of a row is `row[name]`, if there are several.
        """

        def write(column: Column, row: Row) -> str:
            shown, reason = words(column, row), row.get(f"{column.key}_reason") if column.key else None
            mark = (MARK if shown else ABSENT) if reason else ""
            if mark:
                title = _TITLES.get(column.key, column.title)
                self.note(mark, str(reason), title, str(row.get(name)) if name else "")
            return f"{shown} {mark}".rstrip() if shown else ABSENT

        return write

    def note(self, mark: str, reason: str, title: str, row: str = "") -> None:
        """Note that the value in the column of this title has this reason."""
        self._noted.setdefault((mark, reason), {}).setdefault(row, {})[title] = None

    def lines(self) -> Iterator[str]:
        """A heading and lines such as `– MFU, HFU of `train`: no peaks are known`; nothing if there is no reason."""
        marks = {mark for mark, _ in self._noted}
        if marks:
            yield ", ".join(f"{mark} {meaning}" for mark, meaning in _MEANINGS.items() if mark in marks) + ":"
        for (mark, reason), rows in sorted(self._noted.items(), key=lambda noted: noted[0][0] == MARK):
            alike: dict[tuple[str, ...], list[str]] = {}
            for row, titles in rows.items():
                alike.setdefault(tuple(titles), []).append(row)
            what = "; ".join(", ".join(titles) + _of(named) for titles, named in alike.items())
            yield f"  {mark} {what}: {reason}"


def _of(rows: list[str]) -> str:
    named = [f"`{row}`" for row in rows if row]
    return f" of {first_of(named, ROWS_NAMED)}" if named else ""


def render(document: Document, *, width: int = PLAIN_WIDTH, bold: bool = False) -> str:
    """The summary of a snapshot's document, without a newline at its end; escape sequences only with `bold`."""
    if not document.get("process"):
        return f"jaxobs: no summary: {document.get('process_reason') or 'the snapshot is empty'}"
    width = max(MIN_WIDTH, width)
    return to_text(_parts(document, min(SENTENCE_WIDTH, width)), width=width, bold=bold)


def _parts(document: Document, width: int) -> Iterator[TextTable | str]:
    """The lines, sentences among them wrapped at `width`, and the tables."""
    yield _headline(document)
    others = (loop_sentence(document, name) for name in longest_loops(document)[1:])
    for said in (answer(View(document, live=False)), *others):
        yield from wrapped(plain(said), width, "  ", "  ")
    for key, said_of in (("hangs", hang_sentence), ("slowdowns", slowdown_sentence)):
        for each in document.get(key) or ():
            yield from wrapped(plain(said_of(each)), width, "  ", "  ") if each["over"] else ()
    reasons = ReasonsBelow()
    yield from _about_the_run(document, reasons, width)
    for part in (_loops, _functions, _again, _executables, _operations):
        if (table := part(document, reasons)).rows:
            yield from ("", table)
            yield from _where_time_went(document["loops"]) if part is _loops else ()
    if found := document.get("device_time"):
        dearest = without_quotes(in_words(found["by_line"]) or "")
        yield from ["", *wrapped(dearest, width)] if dearest else ()
    for device in document.get("devices") or [] if "peak" in reasons else ():  # how to know it
        if why := (device.get("peaks") or {}).get("reason"):
            reasons.note(ABSENT, why, "peaks")
    lines = list(reasons.lines())
    yield from ["", *lines] if lines else []
    pieces = [f"→ {' '.join(filter(None, piece))}" for piece in advice(document)]
    yield from ["", *pieces] if pieces else []


def _headline(document: Document) -> str:
    process, agent = document["process"], document.get("agent") or {}
    # A source whose hardware or library is not here is neither up nor down.
    failed = [name for name, source in (document.get("sources") or {}).items() if source.get("up") is False]
    lost = {word: agent.get(f"events_{word}") for word in ("dropped", "refused")}
    parts = (
        f"{or_absent(process.get('seconds'), duration)} observed",
        f"jax {process.get('jax') or 'unknown'}",
        process.get("platform"),
        *(f"{count(number, 'event')} {word}" for word, number in lost.items() if number),
        f"metrics at {process['address']}" if process.get("address") else None,
        f"failed: {', '.join(failed)}" if failed else None,
    )
    return "jaxobs: " + ", ".join(filter(None, parts))


def _about_the_run(document: Document, reasons: ReasonsBelow, width: int) -> Iterator[str]:
    """What is missing from the figures, where the run's time went, and its memory."""
    process, agent = document["process"], document.get("agent") or {}
    if process.get("counts_begin_seconds") is not None:
        since = duration(process["counts_begin_seconds"])
        yield f"  counts begin {since} after the start: the agent was lost, and with it what it had counted"
    for reason in agent.get("refused_reasons", [])[:MAX_REFUSALS]:
        yield f"  refused: {reason}"
    for exporter, what in (agent.get("undelivered") or {}).items():
        yield f"  not delivered by {exporter}: {what}"
    spent = {word: seconds for word, seconds in (process.get("run_seconds") or {}).items() if seconds}
    if spent:
        goodput = process.get("goodput")
        ranked = sorted(spent.items(), key=lambda pair: -pair[1])
        least = VISIBLE * sum(spent.values())
        shown = [f"{word} {duration(seconds)}" for word, seconds in ranked if seconds >= least]
        phases = ", ".join(
            f"{name} {duration(seconds)}"
            for name, seconds in (process.get("phase_seconds") or {}).items()
            if seconds >= least and name not in spent  # some are categories themselves
        )
        in_phases = phases and f"; in phases: {phases}"
        yield f"  the run: {', '.join(shown)}{in_phases}; goodput {or_absent(goodput, rough_percent)}"
        if goodput is None and process.get("goodput_reason"):
            reasons.note(ABSENT, str(process["goodput_reason"]), "goodput")
    if document.get("loops") and (running := process.get("running")):  # else the sentence says it
        yield f"  running: a call of {running['function']}, for {duration(running['seconds'])} so far"
    yield from _main_thread(" outside loops" if document.get("loops") else "", process)
    for why, todo in long_compiles(document):
        for line in (why, *(f"→ {piece}" for piece in todo)):
            yield from wrapped(without_quotes(line), width, "  ", "    ")
    memory = list(_memory(document))
    yield from [f"  memory: {'; '.join(memory)}"] if memory else []


def _memory(document: Document) -> Iterator[str]:
    """The memory of the fullest device and of the process, and where live arrays are made if it grows."""
    found = []
    if devices := devices_with_memory(document):
        device = fullest(devices)
        rank = f", the fullest of {len(devices)}," if len(devices) > 1 else ""
        yield f"device {device.get('device')}{rank} {', '.join(memory_in_words(device['memory']))}"
        found.append(device["memory"])
    process = document["process"].get("memory") or {}
    if process.get("in_use_bytes") is not None:
        yield f"process {', '.join(memory_in_words(process))}"
        found.append(process)
    lines = (document["process"].get("live_arrays") or {}).get("lines") or ()
    if lines and any(each.get("growth_bytes_per_second") for each in found):
        most = max(lines, key=lambda line: line.get("bytes") or 0)
        held = f"{most.get('count') or 0:,}, {byte_size(most.get('bytes') or 0)}"
        yield f"most live arrays were made at {most.get('line')}: {held}"


def _where_time_went(loops: Mapping[str, Document]) -> Iterator[str]:
    """The largest shares of each loop's wall time since it began."""
    if inferred := [name for name, loop in loops.items() if loop.get("inferred")]:
        yield f"  nobody marked {', '.join(inferred)}: a step is the time from one call to the next"
    for name, loop in loops.items():
        iterations, step_seconds = loop.get("iterations_per_step"), loop.get("step_seconds")
        if iterations and step_seconds is not None:
            each = duration(step_seconds / iterations)
            yield f"  a step of {name} is one call with {count(iterations)} iterations of {each}"
        spent = spent_by_part(loop)
        if shares := _shares(spent or (loop.get("bottleneck") or {}).get("shares") or {}):
            is_vague = not is_young(loop) and dict(shares).get("unknown", 0.0) >= 0.05  # as on the page
            then = ", as known at the time" * is_vague
            told = ", ".join(f"{word} {rough_percent(share)}" for word, share in shares)
            yield f"  {name} in all{then}: {told}"
        yield from _main_thread(f" of {name}", loop)
        yield from (f"  {word} of {name}: {reason}" for word, _, reason in tables.gone_wrong(loop))


def _main_thread(whose: str, document: Document) -> Iterator[str]:
    """The lines that the main thread is at and those at which it compiles, with the device's idle share."""
    lines = main_thread_lines(document)[:MAX_LINES]
    waits = waiting_for_device(document)
    lines += [f"waiting for the device {rough_percent(waits)}"] if waits >= VISIBLE else []
    compiled = compiling_lines(document)[:MAX_LINES]
    lines += [f"{duration(spent)} compiling at {line}" for line, spent in compiled]
    if lines:
        idle = document.get("device_idle")
        beside = "" if idle is None else f"device idle {rough_percent(idle)}; "
        samples = document.get("host_samples") or MANY_SAMPLES
        few = f" (by {count(samples, 'sample')} alone)" if samples < MANY_SAMPLES else ""
        yield f"  host lines{whose}: {beside}{', '.join(lines)}{few}"


def _shares(components: Mapping[str, float]) -> list[tuple[str, float]]:
    wall = sum(components.values())
    shares = [(word, seconds / wall) for word, seconds in components.items() if wall > 0]
    large = [pair for pair in shares if pair[1] >= VISIBLE]
    return sorted(large, key=lambda pair: -pair[1])[:MAX_SHARES]


def _loops(document: Document, reasons: ReasonsBelow) -> TextTable:
    """Steps, rates, MFU and values recorded by the user, for each loop."""
    found = [{"loop": name, **loop} for name, loop in (document.get("loops") or {}).items()]
    kept = [
        column
        for column in (tables.figure("steps", "steps", count), *tables.LOOP_FIGURES)
        if column.title not in {"tokens/s", "examples/s"} or any(column.show(row) for row in found)
    ]
    values = dict.fromkeys(name for loop in found for name, _ in tables.recorded(loop))
    kept += [tables.figure(name, name, amount, "recorded")._replace(key="") for name in values]
    rows = [row for row in found if any(column.show(row) for column in kept)]
    columns = [tables.name("loop", "loop"), *kept]
    cells = reasons.cells("loop" if len(found) > 1 else "")
    return tables.plain_table(columns, rows, title="loops", write=cells)


def _functions(document: Document, _: ReasonsBelow) -> TextTable:
    """What was compiled, and how long each phase took."""
    rows = tables.functions(document)
    kept, rest = rows[:MAX_FUNCTIONS], rows[MAX_FUNCTIONS:]
    left_out = (document.get("functions_left_out") or 0) + len(rest)
    spent = sum(row["all"] for row in rest) + (document.get("functions_left_out_seconds") or 0.0)
    caption = f"{left_out:,} cheaper ones are not shown, {duration(spent)} in all" if left_out else ""
    columns = known_columns(tables.FUNCTIONS, kept)
    return tables.plain_table(columns, kept, title="compiled functions", caption=caption, write=words)


def _again(document: Document, _: ReasonsBelow) -> TextTable:
    """The most expensive recompilations: which argument changed, from what to what, and where the call was."""
    rows = tables.recompilations(tables.functions(document))
    kept, left = rows[:MAX_AGAIN], len(rows) - MAX_AGAIN
    caption = f"{left} cheaper ones are not shown" if left > 0 else ""
    columns = known_columns(tables.AGAIN, kept)
    return tables.plain_table(columns, kept, title="compiled again", caption=caption)


def _executables(document: Document, reasons: ReasonsBelow) -> TextTable:
    """The executables with the most device time, of which anything is known."""
    columns = [each for each in tables.EXECUTABLES if each.title not in {"bytes", "FLOP/s", "attainable"}]
    told = [column for column in columns if column.title not in {"function", "executable"}]
    found = sorted(document.get("executables") or [], key=executable_size, reverse=True)
    rows = [row for row in found if any(words(column, row) not in {"", *NO_VERDICT} for column in told)]
    left = {"smaller ones": len(rows[MAX_EXECUTABLES:]), "of which nothing is known": len(found) - len(rows)}
    caption = " and ".join(f"{number} {what}" for what, number in left.items() if number)
    caption += " are not shown" if caption else ""
    kept = [dict(row) for row in rows[:MAX_EXECUTABLES]]
    several = Counter(row.get("function") for row in kept)
    for row in kept:
        if row.get("source") == "sampled" and row.get("runs") is not None:
            row["runs_reason"] = row.get("runs_reason") or SAMPLED
        names = str(row.get("function")), str(row.get("executable"))[:8]
        row["title"] = " ".join(names[: several[row.get("function")]])
    cells = reasons.cells("title")
    return tables.plain_table(columns, kept, title="executables", caption=caption, write=cells)


def _operations(document: Document, reasons: ReasonsBelow) -> TextTable:
    """The operations that took most device time in the profiler windows that were read."""
    rows = [
        # The innermost part of a long scope says more than its beginning.
        {**row, "scope": end_of(str(row.get("scope") or ""), SCOPE_WIDTH)}
        for row in (document.get("operations") or [])[:MAX_OPERATIONS]
    ]
    functions = {row.get("function") for row in rows}
    alone = functions.pop() if len(functions) == 1 else None
    left = {"FLOP/byte", "function"} if alone else {"FLOP/byte"}
    columns = [column for column in tables.OPERATIONS if column.title not in left]
    told = [each for each in columns if each.title not in {"operation", "function", "scope", "line"}]
    rows = [row for row in rows if any(column.show(row) not in {None, *NO_VERDICT} for column in told)]
    columns = [column for column in columns if column in told or column in known_columns(columns, rows)]
    title = f"largest operations {f'of {alone} ' if alone else ''}in profiler windows"
    return tables.plain_table(columns, rows, title=title, write=reasons.cells("operation"))
