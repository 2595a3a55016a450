"""Says how a run is going, as a person would: its pace, what limits it, and what was compiled again."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final, NamedTuple

from jaxobs.model.contents import LONG_COMPILE
from jaxobs.model.snapshot import Document
from jaxobs.roofline_model.bottleneck import UNTOLD
from jaxobs.vocabulary import activities
from jaxobs.vocabulary.units import amount, duration, percent, rough_percent

CLEAR: Final = 0.1
"""Least confidence of a clear label. Below it the runner-up is as likely, or it rests on a few steps; advice needs as
much."""

APART: Final = 1.25
"""How many times another share a share must be to be called larger. From 1.22 on the margin between the two (their
difference over their sum) is above CLEAR, so that a low confidence must have another reason."""

WORTH_SAYING: Final = 0.01
"""Share of the run's time from which on recompilations are mentioned; below it there is little to gain."""

UNMODELLED: Final = "work whose cost is not known"
"""What a sentence calls the label `unmodelled`."""

OF_ARGUMENTS: Final = ("shape", "dtype", "weak_type", "sharding")
"""Causes that are a property of the argument that is named with them."""


DOING: Final = {
    activities.DEVICE: "waiting for the device",
    activities.INPUT: "waiting for its input",
    activities.MARKED_INPUT: "waiting for its input",
    activities.WAITING: "waiting",
    activities.PROCESSOR: "running",
    activities.COMPILE: "compiling",
    activities.DISPATCH: "in calls of JAX's",
}
"""What a thread does, by activity."""


class Phrase(NamedTuple):
    """Some words of a sentence. `strong`: they matter most; `is_name`: they are a name from the user's program."""

    words: str
    strong: bool = False
    is_name: bool = False


def _name(words: str) -> Phrase:
    return Phrase(words, strong=True, is_name=True)


def sentence(document: Document, name: str) -> Iterator[Phrase]:
    """What a person would answer who was asked how a run is going whose main loop this is."""
    for hang in document.get("hangs") or ():
        if not hang["over"]:
            yield from hang_sentence(hang)
            yield Phrase(" Before that: ")
    yield from loop_sentence(document, name)
    for slowdown in document.get("slowdowns") or ():
        if not slowdown["over"]:
            yield Phrase(" ")
            yield from slowdown_sentence(slowdown)
    yield from _compiled_again(document)
    yield from _compiling(document)


def sentence_without_loop(document: Document) -> Iterator[Phrase]:
    """What is known of a process in which no loop was seen."""
    process = document.get("process") or {}
    if process.get("finds_loops"):
        yield Phrase(
            "No loop was found yet: one is found when a jitted function has been called several times."
        )
    else:
        yield Phrase(
            "No loop was seen yet: iterate over obs.steps(…), or start the script with `jaxobs run`."
        )
    if running := process.get("running"):
        yield Phrase(" The device has been running ")
        yield _name(str(running["function"]))
        yield Phrase(f" for {duration(running['seconds'])}.")
    yield from _compiling(document)


def hang_sentence(hang: Document) -> Iterator[Phrase]:
    """How long a loop stands still, or stood still: what its thread does and where, and what the device runs."""
    over = hang["over"]
    yield _name(str(hang["loop"]))
    yield Phrase(f" {'ended' if over else 'has ended'} no step for {duration(hang['seconds'])}", strong=True)
    since = f", {duration(hang['began_seconds'])} after the start" if over else ""
    yield Phrase(f"{since} (the longest pause before was {duration(hang['longest_pause_seconds'])}): ")
    if hang.get("line") is None:
        yield Phrase(str(hang.get("line_reason")))
    else:
        doing = DOING.get(str(hang.get("activity")), "")
        yield Phrase(" ".join(filter(None, ("its thread", "was" if over else "is", doing, "at "))))
        yield _name(str(hang["line"]))
        if hang.get("waits_in"):
            yield Phrase(f" ({hang['waits_in']})")
    if hang.get("function"):
        yield Phrase(f", and the device {'ran' if over else 'runs'} ")
        yield _name(str(hang["function"]))
    yield Phrase(".")


def slowdown_sentence(slowdown: Document) -> Iterator[Phrase]:
    """By how much a loop became slower and when, where its thread spends the time, and what else changed about then."""
    over, began = slowdown["over"], float(slowdown["began_timestamp_seconds"])
    yield _name(str(slowdown["loop"]))
    before, now = duration(slowdown["step_seconds_before"]), duration(slowdown["step_seconds"])
    slower = f" {'took' if over else 'takes'} {now} a step instead of {before} (+{rough_percent(slowdown['ratio'] - 1)})"
    yield Phrase(slower, strong=True)
    lasted = f" for {duration(slowdown['seconds'])} from" if over else " since"
    since = f"{lasted} {clock(began)}, {duration(slowdown['began_seconds'])} after the start"
    activity, parts = slowdown.get("activity"), slowdown.get("parts") or {}
    if activity is None or activity not in parts:
        yield Phrase(f"{since}; where is not known: {slowdown.get('activity_reason')}.")
    else:
        grew = parts[activity]
        yield Phrase(
            f"{since}: its thread {'was' if over else 'is'} {DOING.get(activity, 'at what is not known')} for "
        )
        yield Phrase(f"{duration(grew['after'])} of a step instead of {duration(grew['before'])}, most at ")
        yield _name(str(slowdown["line"]))
        yield Phrase(".")
    if facts := slowdown.get("facts"):
        yield Phrase(f" About then: {'; '.join(facts)}.")


def clock(unix: float) -> str:
    """The time of day, here, of a moment in Unix seconds."""
    return f"{datetime.fromtimestamp(unix).astimezone():%H:%M:%S}"


def loop_sentence(document: Document, name: str) -> Iterator[Phrase]:
    """The pace of a loop, and what limits it."""
    loop = (document.get("loops") or {})[name]
    yield from _pace(name, loop)
    yield Phrase(" ")
    yield from _limit(loop)


def plain(parts: Iterator[Phrase]) -> str:
    """The sentence as plain text, with names in backquotes."""
    return "".join(f"`{part.words}`" if part.is_name else part.words for part in parts)


def code_apart(text: str) -> list[tuple[str, bool]]:
    """The pieces of a text, each with whether it is in backquotes; the whole text where one of these is not closed."""
    pieces = text.split("`")
    return [(piece, at % 2 == 1) for at, piece in enumerate(pieces)] if len(pieces) % 2 else [(text, False)]


def without_quotes(text: str) -> str:
    """A text without the backquotes around code."""
    return "".join(words for words, _ in code_apart(text))


def why_unknown(loop: Document) -> str:
    """Why it is not known what the device did in a loop, or in most of it: the most particular reason."""
    reasons = (
        (loop.get("bottleneck") or {}).get("reason"),
        loop.get("mfu_reason"),
        loop.get("profile_reason"),
    )
    return str(next((reason for reason in reasons if reason and reason != UNTOLD), UNTOLD))


def _pace(name: str, loop: Document) -> Iterator[Phrase]:
    yield _name(name)
    rate, step_seconds = loop.get("steps_per_second"), loop.get("step_seconds")
    if rate is None:
        yield Phrase(f" has done {loop.get('steps') or 0:,} steps")
    elif rate >= 1 or step_seconds is None:
        yield Phrase(f" runs at {amount(rate)} steps/s")
    else:
        yield Phrase(f" takes {duration(step_seconds)} a step")
    yield Phrase(f", MFU {percent(loop['mfu'])}." if loop.get("mfu") is not None else ".")


def _limit(loop: Document) -> Iterator[Phrase]:
    verdict = loop.get("bottleneck") or {}
    label, second, shares = verdict.get("label"), verdict.get("runner_up"), verdict.get("shares") or {}
    reason = verdict.get("reason")
    largest = max(shares, key=shares.__getitem__, default=None)
    if not label or (label == "unknown" and label != largest and (reason or not shares)):
        yield Phrase(f"What limits it is not known: {reason or 'too little was seen'}.")
        return
    next_share = f" ({rough_percent(shares[second])})" if second in shares else ""
    if label == "unknown":
        yield Phrase(f"What it spends {rough_percent(shares.get(label, 0.0))} of its time on is not known")
        known = second in shares and second != label
        yield Phrase(f": {why_unknown(loop)}")
        yield Phrase(f"; {second} takes {rough_percent(shares[second])}." if known else ".")
        return
    share = f" ({rough_percent(shares[label])} of the time)" if label in shares else ""
    unsure = (verdict.get("confidence") or 0.0) < CLEAR
    if unsure and shares.get(label, 0.0) > APART * shares.get(second, 0.0):
        yield Phrase(f"It seems to be limited by {label}{share}, which is not sure.")
        return
    if unsure and second:
        yield Phrase(f"Two things limit it about as much: {label}{share} and {second}{next_share}.")
        return
    yield Phrase("It is limited by ")
    yield Phrase(UNMODELLED if label == "unmodelled" else str(label), strong=True)
    yield Phrase(f"{share}" + (f", then {second}{next_share}." if second else "."))


def _compiling(document: Document) -> Iterator[Phrase]:
    """What is being compiled now, where that takes long."""
    for name, seconds in ((document.get("process") or {}).get("compiling") or {}).items():
        if seconds > LONG_COMPILE:
            yield Phrase(" ")
            yield _name(str(name))
            yield Phrase(f" has been compiling for {duration(seconds)}.")


def _compiled_again(document: Document) -> Iterator[Phrase]:
    """The function whose recompilations took longest, and what changed in the most expensive of them."""
    age = (document.get("process") or {}).get("seconds")
    spent = {
        name: sum(row.get("seconds") or 0.0 for row in found)
        for name, function in (document.get("functions") or {}).items()
        if (found := function.get("recompilations") or [])
    }
    name = max(spent, key=lambda name: spent[name], default=None)
    if name is None or not age or spent[name] < WORTH_SAYING * age:
        return
    dearest = max(document["functions"][name]["recompilations"], key=lambda row: row.get("seconds") or 0.0)
    cause, argument = str(dearest.get("cause")), dearest.get("argument")
    yield Phrase(f" {rough_percent(spent[name] / age)} of the run went into compiling ")
    yield _name(name)
    if argument and cause in OF_ARGUMENTS:
        yield Phrase(f" again, because the {cause.replace('_', ' ')} of ")
        yield _name(str(argument))
        yield Phrase(" changed")
    else:
        yield Phrase(f" again ({cause.replace('_', ' ')})")
    site = str(dearest.get("call_site") or "").rpartition("/")[2]
    yield Phrase(f" at {site}." if site else ".")
