"""Says how a run is going, as a person would: its pace, what limits it, and what was compiled again.

In the texts of this room names and code stand in backquotes, and what matters most between `**`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from functools import reduce
from typing import Final, Literal

from jaxobs.model.contents import LONG_COMPILE, last_name
from jaxobs.model.snapshot import Document
from jaxobs.report.history import AFTER
from jaxobs.roofline_model.bottleneck import UNTOLD
from jaxobs.vocabulary import activities
from jaxobs.vocabulary.units import amount, count, duration, percent, rough_percent
from jaxobs.vocabulary.words import INSIDE, ON_ONE_THREAD

CLEAR: Final = 0.1
"""Least confidence of a clear label. Below it the runner-up is as likely, or it rests on a few steps; advice needs as
much."""

APART: Final = 1.25
"""How many times another share a share must be to be called larger. From 1.22 on the margin between the two (their
difference over their sum) is above CLEAR, so that a low confidence must have another reason."""

WORTH_SAYING: Final = 0.01
"""Share of the run's time from which on recompilations are mentioned; below it there is little to gain."""

ALL: Final = 0.999
"""Share from which on seconds are all of a loop's: they are sums of the same, each rounded in its own way."""

OF_ARGUMENTS: Final = ("shape", "dtype", "weak_type", "sharding")
"""Causes that are a property of the argument that is named with them."""


DOING: Final = {
    activities.DEVICE: "waiting for the device",
    activities.INPUT: "waiting for its input",
    activities.MARKED_INPUT: "waiting for its input",
    activities.CALLBACK: "in a callback",
    activities.WAITING: "waiting",
    activities.PROCESSOR: "running",
    activities.COMPILE: "compiling",
    activities.DISPATCH: "in calls of JAX's",
}
"""What a thread does, by activity."""


Mark = Literal["", "code", "strong"]

_MARKED: Final = re.compile(r"`(?P<code>[^`]*)`|\*\*(?P<strong>.+?)\*\*", re.DOTALL)


def code(name: object) -> str:
    """A name from the user's program as it stands in a text: in backquotes; its own become apostrophes."""
    return "`" + str(name).replace("`", "'") + "`"


def as_it_is(name: object) -> str:
    """A name in a text of which it is all: as code only where something in it would be taken for a mark."""
    return code(name) if _MARKED.search(str(name)) else str(name)


def pieces(text: str) -> Iterator[tuple[str, Mark]]:
    """The words of a text without its marks: `code` was in backquotes, `strong` between `**`."""
    end = 0
    for found in _MARKED.finditer(text) if "`" in text or "**" in text else ():
        if found.start() > end:
            yield text[end : found.start()], ""
        yield (found["strong"], "strong") if found["strong"] else (found["code"], "code")
        end = found.end()
    if end < len(text):
        yield text[end:], ""


def plain(text: str) -> str:
    """A text for where nothing can be strong; names stay in backquotes."""
    return _MARKED.sub(lambda found: found["strong"] or found[0], text)


def without_quotes(text: str) -> str:
    """The words of a text alone."""
    return "".join(words for words, _ in pieces(text))


def sentence(document: Document, name: str) -> str:
    """What a person would answer who was asked how a run is going whose main loop this is."""
    hangs = (hang_sentence(hang) for hang in document.get("hangs") or () if not hang["over"])
    slowdowns = (slowdown_sentence(each) for each in document.get("slowdowns") or () if not each["over"])
    before = (f"{said} Before that:" for said in hangs)
    after = (*_meanwhile(document, name), *slowdowns, *_compiled_again(document), *_compiling(document))
    return " ".join([*before, loop_sentence(document, name), *after])


def sentence_without_loop(document: Document) -> str:
    """What is known of a process in which no loop was seen."""
    process = document.get("process") or {}
    said = ["No loop was seen: iterate over obs.steps(…), or start the script with `jaxobs run`."]
    if process.get("finds_loops"):
        said = ["No loop was found: one is found when calls of a jitted function repeat for a second or two."]
    if running := process.get("running"):
        name, lasts = code(running["function"]), duration(running["seconds"])
        said.append(f"The device has been running {name} for {lasts}.")
    return " ".join([*said, *_compiling(document)])


def hang_sentence(hang: Document) -> str:
    """How long a loop stands still, or stood still: what its thread does and where, and what the device runs."""
    over = hang["over"]
    since = f", {duration(hang['began_seconds'])} after the start" if over else ""
    said = f"{code(hang['loop'])}** {'ended' if over else 'has ended'} no step for {duration(hang['seconds'])}**{since}"
    in_flight = 0 if over else hang.get("steps_in_flight") or 0
    last = f"last {count(in_flight)}" if in_flight > 1 else "last"
    known = [
        f"after {count(hang['steps'], 'step')}" if hang.get("steps") else None,
        f"of which the {last} may not be done" if in_flight else None,
        f"the longest pause before was {duration(hang['longest_pause_seconds'])}",
    ]
    said += f" ({', '.join(filter(None, known))}): "
    if hang.get("line") is None:
        said += str(hang.get("line_reason"))
    else:
        doing = DOING.get(str(hang.get("activity")))
        words = ("its thread", "was" if over else "is", doing, "at", code(hang["line"]))
        said += " ".join(filter(None, words))
        said += f" ({hang['waits_in']})" if hang.get("waits_in") else ""
    ran = f", and the device {'ran' if over else 'runs'} {code(hang['function'])}"
    return f"{said}{ran if hang.get('function') else ''}{_load(hang)}."


def _load(hang: Document) -> str:
    """How busy the devices are while the loop stands still, and at what power; empty where nobody reads them."""
    devices, said = hang.get("devices") or (), []
    for key, words in (("utilization_ratio", "busy"), ("power_ratio", "of the power limit")):
        known = [float(device[key]) for device in devices if device[key] is not None]
        bounds = dict.fromkeys(map(percent, (min(known), max(known)))) if known else {}
        said += [f"{' to '.join(bounds)} {words}"] if known else []
    return f"; its devices: {', '.join(said)}" if said else ""


def slowdown_sentence(slowdown: Document) -> str:
    """By how much a loop became slower and when, where its thread spends the time, and what else changed about then."""
    over, began = slowdown["over"], float(slowdown["began_timestamp_seconds"])
    before, now = duration(slowdown["step_seconds_before"]), duration(slowdown["step_seconds"])
    slower = f"{'took' if over else 'takes'} {now} a step instead of {before} (+{rough_percent(slowdown['ratio'] - 1)})"
    lasted = f"for {duration(slowdown['seconds'])} from" if over else "since"
    said = f"{code(slowdown['loop'])}** {slower}** {lasted} {clock(began)}, "
    said += f"{duration(slowdown['began_seconds'])} after the start"
    activity, parts = slowdown.get("activity"), slowdown.get("parts") or {}
    if activity is None or activity not in parts:
        said += f"; where is not known: {slowdown.get('activity_reason')}."
    else:
        doing = f"its thread {'was' if over else 'is'} {DOING.get(activity, 'at what is not known')}"
        took = " of a step instead of ".join(duration(parts[activity][key]) for key in ("after", "before"))
        said += f": {doing} for {took}, most at {code(slowdown['line'])}."
    facts = slowdown.get("facts")
    return f"{said} About then: {'; '.join(facts)}." if facts else said


def clock(unix: float) -> str:
    """The time of day, here, of a moment in Unix seconds."""
    return f"{datetime.fromtimestamp(unix).astimezone():%H:%M:%S}"


def loop_sentence(document: Document, name: str) -> str:
    """The pace of a loop, and what limits it."""
    loop = (document.get("loops") or {})[name]
    is_over = bool((document.get("process") or {}).get("ended"))  # of a job's last loop its pace is told
    return _ended(loop, name, is_over) or f"{code(name)} {_pace(loop)} {_limit(loop)}"


def _ended(loop: Document, name: str, is_over: bool) -> str | None:
    """How long ago a loop ended, while its job goes on, its pace, and what limited it or took most; None for others."""
    ago, steps = loop.get("left_seconds"), loop.get("steps")
    is_rated = loop.get("steps_per_second") is not None
    if ago is None or (is_rated and (is_over or ago < AFTER)) or not steps:
        return None
    when = "before the end," if is_over else "ago"
    said = f"{code(name)} ended {duration(ago)} {when} after {count(steps, 'step')}."
    if is_rated:
        told = f"{said} It {_pace(loop)} {_limit(loop)}"
        return reduce(lambda text, words: text.replace(*words, 1), _PAST, told)
    spent = spent_by_part(loop)
    most = max(spent, key=spent.__getitem__, default=None)
    share = spent[most] / sum(spent.values()) if most and any(spent.values()) else 0.0
    if most == "unknown" and share:
        return f"{said} What most of its time went to is not known."
    return f"{said} Most of its time went to **{named(most)}** ({rough_percent(share)})." if share else said


_PAST: Final = (
    ("It runs at", "It ran at"), ("It takes", "It took"), ("It is limited", "It was limited"),
    ("It seems to be", "It seems to have been"), ("things limit it", "things limited it"),
    ("What limits it", "What limited it"), ("What it spends", "What it spent"),
)  # fmt: skip
"""What is said of a loop that runs, and how of one that ran."""


def is_young(loop: Document) -> bool:
    """Whether the shares that its bottleneck is told by are those of all its time."""
    return bool((loop.get("recent_seconds") or 0.0) >= ALL * sum((loop.get("components") or {}).values()))


def spent_by_part(loop: Document) -> Document:
    """Seconds of a loop's time by component: as they were charged; where it is young, by what is known of it now."""
    charged, shares = loop.get("components") or {}, (loop.get("bottleneck") or {}).get("shares") or {}
    whole = sum(charged.values())
    return {word: share * whole for word, share in shares.items()} if shares and is_young(loop) else charged


def _meanwhile(document: Document, name: str) -> Iterator[str]:
    """Beside a loop that ended, or without steps of late: the phase or the other loop that is under way."""
    loops, phases = document.get("loops") or {}, (document.get("process") or {}).get("phases")
    if loops[name].get("steps_per_second") is not None and loops[name].get("left_seconds") is None:
        return
    if phases:
        phase, spent = list(phases.items())[-1]
        yield f"The job has been in {code(phase)} for {duration(spent)}."
    for other, loop in loops.items():
        if loop.get("steps_per_second") is not None and loop.get("left_seconds") is None:
            yield f"Meanwhile {code(other)} {_pace(loop)}"
            return


def why_unknown(loop: Document) -> str:
    """Why it is not known what the device did in a loop, or in most of it: the most particular reason."""
    verdict = loop.get("bottleneck") or {}
    no_mfu = loop.get("mfu_reason") if loop.get("mfu") is None else None  # of a known one it is a reserve
    reasons = (verdict.get("reason"), no_mfu, loop.get("profile_reason"))
    return str(next((reason for reason in reasons if reason and reason != UNTOLD), UNTOLD))


def _pace(loop: Document) -> str:
    rate, step_seconds = loop.get("steps_per_second"), loop.get("step_seconds")
    if rate is None:
        pace = f"has done {count(loop.get('steps') or 0, 'step')}"
    elif step_seconds is None or (rate >= 1 and loop.get("steps") != 1):
        pace = f"runs at {amount(rate)} steps/s"
    else:
        pace = f"takes {duration(step_seconds)} a step"
    note = loop.get("steps_per_second_reason")
    pace += f" {note}" if note in {INSIDE, ON_ONE_THREAD} else ""
    least = "at least " if str(loop.get("mfu_reason")).startswith("a lower bound") else ""
    if (used := loop.get("mfu")) is None:
        return f"{pace}."
    return f"{pace}, MFU {least}{percent(used)}{' of a peak that is too low' if used > 1 else ''}."


def _limit(loop: Document) -> str:
    verdict = loop.get("bottleneck") or {}
    label, second, shares = verdict.get("label"), verdict.get("runner_up"), verdict.get("shares") or {}
    reason = verdict.get("reason")
    largest = max(shares, key=shares.__getitem__, default=None)
    if not label or (label == "unknown" and label != largest and (reason or not shares)):
        return f"What limits it is not known: {reason or 'too little was seen'}."
    by, then = named(label), named(second)
    then += f" ({rough_percent(shares[second])})" if second in shares else ""
    if label == "unknown":
        much = rough_percent(shares.get(label, 0.0))
        known = second in shares and second != label
        beside = f"; {named(second)} takes {rough_percent(shares[second])}" if known else ""
        return f"What it spends {much} of its time on is not known: {why_unknown(loop)}{beside}."
    share = f" ({rough_percent(shares[label])} of the time)" if label in shares else ""
    unsure = (verdict.get("confidence") or 0.0) < CLEAR
    if unsure and (second == "unknown" or shares.get(label, 0.0) > APART * shares.get(second, 0.0)):
        return f"It seems to be limited by {by}{share}, which is not sure."
    if unsure and second:
        return f"Two things limit it about as much: {by}{share} and {then}."
    return f"It is limited by **{by}**{share}{f', then {then}' if second else ''}."


def named(label: str | None) -> str:
    """What a sentence calls a label."""
    return "work whose cost is not known" if label == "unmodelled" else str(label)


def _compiling(document: Document) -> Iterator[str]:
    """What is being compiled now, where that takes long."""
    process = document.get("process") or {}
    for name, seconds in (process.get("compiling") or {}).items():
        if seconds > LONG_COMPILE:
            doing = _IN_PHASE.get((process.get("compiling_phases") or {}).get(name, ""), "")
            yield f"{code(name)} has been compiling for {duration(seconds)}{doing}."


_IN_PHASE: Final = {
    "trace": ": JAX traces its Python code",
    "lower": ": JAX lowers it to StableHLO",
    "backend": ": XLA compiles it",
}


def _compiled_again(document: Document) -> Iterator[str]:
    """The function whose recompilations took longest, and what changed in the most expensive of them."""
    age = (document.get("process") or {}).get("seconds")
    functions = document.get("functions") or {}
    again = {name: each["recompilations"] for name, each in functions.items() if each.get("recompilations")}
    spent = {name: sum(row.get("seconds") or 0.0 for row in rows) for name, rows in again.items()}
    name = max(spent, key=lambda name: spent[name], default=None)
    if name is None or not age or spent[name] < WORTH_SAYING * age:
        return
    dearest = max(again[name], key=lambda row: row.get("seconds") or 0.0)
    words, argument = str(dearest.get("cause")).replace("_", " "), dearest.get("argument")
    why = f" ({words})"
    if argument and dearest["cause"] in OF_ARGUMENTS:
        why = f", because the {words} of {code(argument)} changed"
    site = last_name(dearest.get("call_site"))
    at = f" at {site}" if site else ""
    yield f"{rough_percent(spent[name] / age)} of the run went into compiling {code(name)} again{why}{at}."
