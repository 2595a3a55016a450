"""How a run goes, in sentences as a person would say them: its pace, what limits it, what was compiled again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from jaxobs.report.document import Document, longest_loops
from jaxobs.report.units import amount, duration, percent, rough_percent

CLEAR: Final = 0.1
"""A label with less confidence is as good as its runner-up, or rests on a few steps: no advice rests on it either."""

APART: Final = 1.25
"""A share more than this many times another one is not about as much: from 1.22 on the margin between the two, their
difference by their sum, is clear by itself, and what is doubted is something else."""

WORTH_SAYING: Final = 0.01
"""Share of the run's time from which on a recompilation is said; with less there is nothing to gain."""

OF_ARGUMENTS: Final = ("shape", "dtype", "weak_type", "sharding")
"""Causes that are a property of the argument named with them."""


class Part(NamedTuple):
    """Some words; whether they are what matters in the sentence, and whether they are a name of the user's."""

    words: str
    strong: bool = False
    is_name: bool = False


def _name(words: str) -> Part:
    return Part(words, strong=True, is_name=True)


def main_loop(document: Document) -> str | None:
    """The loop that took most of the time; None where there is none."""
    return next(iter(longest_loops(document)), None)


def sentence(document: Document, name: str) -> Iterator[Part]:
    """What a person would say who was asked how this loop goes."""
    loop = (document.get("loops") or {})[name]
    yield from _pace(name, loop)
    yield Part(" ")
    yield from _limit(loop)
    yield from _compiled_again(document)


def plain(parts: Iterator[Part]) -> str:
    """The words alone; names as `code`."""
    return "".join(f"`{part.words}`" if part.is_name else part.words for part in parts)


def _pace(name: str, loop: Document) -> Iterator[Part]:
    yield _name(name)
    rate, step_seconds = loop.get("steps_per_second"), loop.get("step_seconds")
    if rate is None:
        yield Part(f" has done {loop.get('steps') or 0:,} steps")
    elif rate >= 1 or step_seconds is None:
        yield Part(f" runs at {amount(rate)} steps/s")
    else:
        yield Part(f" takes {duration(step_seconds)} a step")
    yield Part(f", MFU {percent(loop['mfu'])}." if loop.get("mfu") is not None else ".")


def _limit(loop: Document) -> Iterator[Part]:
    verdict = loop.get("bottleneck") or {}
    label, second, shares = verdict.get("label"), verdict.get("runner_up"), verdict.get("shares") or {}
    if not label:
        yield Part(f"What limits it is not known: {verdict.get('reason') or 'too little was seen'}.")
        return
    next_share = f" ({rough_percent(shares[second])})" if second in shares else ""
    if (
        label == "unknown"
        and verdict.get("reason")
        and label != max(shares, key=shares.__getitem__, default=label)
    ):
        yield Part(f"What limits it is not known: {verdict['reason']}.")
        return
    if label == "unknown":
        yield Part(f"What it spends {rough_percent(shares.get(label, 0.0))} of its time on is not known")
        known = second in shares and second != label
        yield Part(f"; {second} takes {rough_percent(shares[second])}." if known else ".")
        return
    share = f" ({rough_percent(shares[label])} of the time)" if label in shares else ""
    unsure = (verdict.get("confidence") or 0.0) < CLEAR
    if unsure and shares.get(label, 0.0) > APART * shares.get(second, 0.0):
        yield Part(f"It seems to be limited by {label}{share}, which is not sure.")
        return
    if unsure and second:
        yield Part(f"Two things limit it about as much: {label}{share} and {second}{next_share}.")
        return
    yield Part("It is limited by ")
    yield Part(str(label), strong=True)
    yield Part(f"{share}" + (f", then {second}{next_share}." if second else "."))


def _compiled_again(document: Document) -> Iterator[Part]:
    """The function whose recompilations took longest, and what changed in the dearest of them."""
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
    yield Part(f" {rough_percent(spent[name] / age)} of the run went into compiling ")
    yield _name(name)
    if argument and cause in OF_ARGUMENTS:
        yield Part(f" again, because the {cause.replace('_', ' ')} of ")
        yield _name(str(argument))
        yield Part(" changed")
    else:
        yield Part(f" again ({cause.replace('_', ' ')})")
    site = str(dearest.get("call_site") or "").rpartition("/")[2]
    yield Part(f" at {site}." if site else ".")
