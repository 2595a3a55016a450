"""A snapshot's document as a text for people: where the time went, tables, and what to do.

A value that is not known is printed as `–`, one with a reservation has a `*`, and each reason stands once below all
tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from textwrap import wrap
from typing import Final

from jaxobs.model.snapshot import (
    Document,
    all_compile_seconds,
    devices_with_memory,
    fullest,
    main_thread_lines,
    waiting_for_device,
)
from jaxobs.report.sentence import CLEAR, main_loop, plain, sentence
from jaxobs.report.summary import tables
from jaxobs.report.summary.reasons import Reasons
from jaxobs.report.summary.tables import NO_VERDICT
from jaxobs.report.text_table import PLAIN_WIDTH, TextTable, to_text
from jaxobs.vocabulary.text import printable
from jaxobs.vocabulary.units import ABSENT, byte_size, count, duration, or_absent, percent, rough_percent

LARGEST_SHARES: Final = 4
LEAST_SHARE: Final = 0.005
"""Share below which a part is left out: it rounds to 0 %, or is less than what step times vary by."""

SENTENCE_WIDTH: Final = 100
"""Width in columns; longer lines are hard to read."""

REFUSALS_SHOWN: Final = 3
HOST_LINES: Final = 4


def render(document: Document, *, width: int = PLAIN_WIDTH, bold: bool = False) -> str:
    """The summary of a snapshot's document, without a newline at its end; escape sequences only with `bold`."""
    if not document.get("process"):
        return f"jaxobs: no summary: {document.get('process_reason') or 'the snapshot is empty'}"
    return to_text(_parts(document), width=width, bold=bold)


def digest(document: Document) -> str:
    """The summary in one line: each loop's steps, step time, MFU and bottleneck, and what was compiled."""
    if not document.get("process"):
        return str(document.get("process_reason") or "nothing is known")
    parts = []
    for name, loop in (document.get("loops") or {}).items():
        words = [f"{name}: {or_absent(loop.get('steps'), count)} steps"]
        words += [f"{duration(loop['step_seconds'])} a step"] if loop.get("step_seconds") is not None else []
        words += [f"MFU {percent(loop['mfu'])}"] if loop.get("mfu") is not None else []
        label = (loop.get("bottleneck") or {}).get("label")
        parts.append(", ".join([*words, *([f"bottleneck {label}"] if label else [])]))
    functions = document.get("functions") or {}
    number = len(functions) + (document.get("functions_left_out") or 0)
    if functions:
        parts.append(f"{number:,} functions compiled in {duration(all_compile_seconds(document))}")
    return printable("; ".join(parts) or "nothing has run yet")


def _parts(document: Document) -> Iterator[TextTable | str]:
    yield _headline(document)
    if (name := main_loop(document)) is not None:
        yield from wrap(
            plain(sentence(document, name)), SENTENCE_WIDTH, initial_indent="  ", subsequent_indent="  "
        )
    reasons = Reasons()
    yield from _about_the_run(document, reasons)
    if (loops := tables.loops(document, reasons)) is not None:
        yield from ("", loops)
        yield from _where_time_went(document["loops"])
    for table in (
        tables.functions(document),
        tables.compiled_again(document),
        tables.executables(document, reasons),
        tables.operations(document, reasons),
    ):
        if table is not None:
            yield from ("", table)
    lines = list(reasons.lines())
    yield from ["", *lines] if lines else []
    if "peak" in reasons:
        yield from _how_to_know_peaks(document, reasons)
    advice = document.get("advice") or []
    yield from [""] if advice else []
    for piece in advice:
        yield f"→ {' '.join(_advice(piece))}"


def _headline(document: Document) -> str:
    process = document["process"]
    age = or_absent(process.get("seconds"), duration)
    parts = [f"{age} observed", f"jax {process.get('jax') or 'unknown'}"]
    parts += [str(process["platform"])] if process.get("platform") else []
    agent = document.get("agent") or {}
    for word in ("dropped", "refused"):
        parts += [f"{agent[f'events_{word}']:,} events {word}"] if agent.get(f"events_{word}") else []
    parts += [f"metrics at {process['address']}"] if process.get("address") else []
    # A source whose hardware or library is not here is neither up nor down.
    failed = [name for name, source in (document.get("sources") or {}).items() if source.get("up") is False]
    parts += [f"failed: {', '.join(failed)}"] if failed else []
    return "jaxobs: " + ", ".join(parts)


def _about_the_run(document: Document, reasons: Reasons) -> Iterator[str]:
    """What is missing from the figures, where the run's time went, and its memory."""
    process = document["process"]
    if process.get("counts_begin_seconds") is not None:
        since = duration(process["counts_begin_seconds"])
        yield f"  counts begin {since} after the start: the agent was lost, and with it what it had counted"
    agent = document.get("agent") or {}
    for reason in agent.get("refused_reasons", [])[:REFUSALS_SHOWN]:
        yield f"  refused: {reason}"
    for exporter, what in (agent.get("undelivered") or {}).items():
        yield f"  not delivered by {exporter}: {what}"
    spent = {word: seconds for word, seconds in (process.get("run_seconds") or {}).items() if seconds}
    if spent:
        goodput = process.get("goodput")
        ranked = sorted(spent.items(), key=lambda pair: -pair[1])
        shown = [
            f"{word} {duration(seconds)}"
            for word, seconds in ranked
            if seconds >= LEAST_SHARE * sum(spent.values())
        ]
        yield f"  the run: {', '.join(shown)}; goodput {or_absent(goodput, rough_percent)}"
        if goodput is None and process.get("goodput_reason"):
            reasons.note(ABSENT, str(process["goodput_reason"]), "goodput")
    if running := process.get("running"):
        yield f"  running: a call of {running['function']}, for {duration(running['seconds'])} so far"
    yield from _main_thread(" outside loops" if document.get("loops") else "", process)
    memory = list(_memory(document))
    yield from [f"  memory: {'; '.join(memory)}"] if memory else []


def _memory(document: Document) -> Iterator[str]:
    """The memory of the fullest device, and of the process."""
    if devices := devices_with_memory(document):
        device = fullest(devices)
        rank = f", the fullest of {len(devices)}," if len(devices) > 1 else ""
        yield f"device {device.get('device')}{rank} {_filled(device['memory'])}"
    process = document["process"].get("memory") or {}
    if process.get("in_use_bytes") is not None:
        yield f"process {_filled(process)}"


def _filled(memory: Document) -> str:
    limit = f" of {byte_size(memory['limit_bytes'])}" if memory.get("limit_bytes") else ""
    most = f", at most {byte_size(memory['peak_bytes'])}" if memory.get("peak_bytes") else ""
    return f"{byte_size(memory['in_use_bytes'])}{limit}{most}"


def _where_time_went(loops: Mapping[str, Document]) -> Iterator[str]:
    """The largest shares of each loop's wall time since it began, and its bottleneck in the last half minute."""
    if inferred := [name for name, loop in loops.items() if loop.get("inferred")]:
        yield f"  nobody marked {', '.join(inferred)}: a step is the time from one call to the next"
    for name, loop in loops.items():
        iterations, step_seconds = loop.get("iterations_per_step"), loop.get("step_seconds")
        if iterations and step_seconds is not None:
            each = duration(step_seconds / iterations)
            yield f"  a step of {name} is one call with {count(iterations)} iterations of {each}"
        bottleneck = loop.get("bottleneck") or {}
        label, reason, second = (bottleneck.get(key) for key in ("label", "reason", "runner_up"))
        shares = _shares(loop.get("components") or bottleneck.get("shares") or {})
        if shares:
            yield f"  time of {name}: {', '.join(f'{word} {rough_percent(share)}' for word, share in shares)}"
        yield from _main_thread(f" of {name}", loop)
        if label == "unknown" and reason:
            yield f"  bottleneck of {name}: unknown: {reason}"
        elif label:
            confidence = bottleneck.get("confidence")
            if confidence is not None and confidence < CLEAR and label not in NO_VERDICT:
                others = f" ({label}{f', then {second}' if second else ''})"
                yield f"  bottleneck of {name} lately: none clear{others}, confidence {confidence:.2f}"
                continue
            sure = "" if confidence is None else f", confidence {confidence:.2f}"
            yield f"  bottleneck of {name} lately: {label}{sure}{f'; then {second}' if second else ''}"


def _main_thread(whose: str, document: Document) -> Iterator[str]:
    """The lines that the main thread is at, with the share of time in which the device is idle."""
    lines = main_thread_lines(document)[:HOST_LINES]
    waits = waiting_for_device(document)
    lines += [f"waiting for the device {rough_percent(waits)}"] if waits >= LEAST_SHARE else []
    if lines:
        idle = document.get("device_idle")
        beside = "" if idle is None else f"device idle {rough_percent(idle)}; "
        yield f"  host lines{whose}: {beside}{', '.join(lines)}"


def _shares(components: Mapping[str, float]) -> list[tuple[str, float]]:
    wall = sum(components.values())
    shares = [(word, seconds / wall) for word, seconds in components.items() if wall > 0]
    large = [pair for pair in shares if pair[1] >= LEAST_SHARE]
    return sorted(large, key=lambda pair: -pair[1])[:LARGEST_SHARES]


def _how_to_know_peaks(document: Document, shown: Reasons) -> Iterator[str]:
    """What to run where a peak is not known, unless a reason was already shown that says so."""
    reasons = {(device.get("peaks") or {}).get("reason") for device in document.get("devices") or []}
    for reason in sorted(filter(None, reasons)):
        if reason not in shown:
            yield from ("", f"peaks: {reason}")


def _advice(piece: Document) -> Iterator[str]:
    yield str(piece["sentence"])
    if piece.get("remedy"):
        yield str(piece["remedy"])
    if piece.get("saves_ratio") is not None:
        hourly = f", {duration(piece['seconds_per_hour'])} an hour" if piece.get("seconds_per_hour") else ""
        yield f"That would give back up to {rough_percent(piece['saves_ratio'])} of the time{hourly}."
    elif piece.get("saves_bytes") is not None:
        yield f"That would give back up to {byte_size(piece['saves_bytes'])}."
