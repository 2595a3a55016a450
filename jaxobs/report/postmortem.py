"""One story of a run that ended badly, from what the flight recorders of its ranks kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from jaxobs.report.sentence import hang_sentence, plain
from jaxobs.report.text_table import TextTable
from jaxobs.vocabulary.text import printable_document, read_json
from jaxobs.vocabulary.units import byte_size, count, duration, or_absent

RECORDER: Final = "recorder.jsonl"
BEFORE: Final = "recorder.before"

Moment = Mapping[str, Any]
"""A line of a recorder: `at` in Unix seconds, and `who`, `span`, or what was known at that moment."""

RUN: Final = "jax.run"
"""The span of the whole run, which ends with the job."""

TOLD_SECONDS: Final = 120.0
"""Seconds before the first rank stopped from which on events are told."""

MAX_EVENTS: Final = 40
MIN_SECONDS: Final = 1.0
"""Seconds from which on a compile or phase is told: shorter ones are ordinary."""

GREW: Final = 1.1
"""Growth of the memory in these seconds from which on it is told."""


@dataclass(slots=True)
class Flight:
    """What one process's recorder tells. Times are Unix seconds."""

    who: Mapping[str, str] = field(default_factory=dict)
    moments: list[Moment] = field(default_factory=list)
    spans: list[Moment] = field(default_factory=list)
    ended: str = "killed with its agent"
    """How the job ended, as its agent saw it."""
    stepped: dict[str, tuple[int, float]] = field(default_factory=dict)
    """By loop, the steps that had ended, and when that number was first seen."""

    @property
    def rank(self) -> str:
        return self.who.get("jax.process_index", "–")

    @property
    def last(self) -> Moment:
        """The newest moment."""
        return self.moments[-1]

    @property
    def last_step(self) -> tuple[str, int, float] | None:
        """The loop whose step ended last, that step's number, and when; None if there was none."""
        newest = max(self.stepped, key=lambda name: self.stepped[name][1], default=None)
        return None if newest is None else (newest, *self.stepped[newest])

    @property
    def stopped(self) -> float:
        """When it last got on."""
        return self.moments[0]["at"] if self.last_step is None else self.last_step[2]

    def add(self, line: Moment) -> None:
        """Add the next line."""
        if "who" in line:
            self.who = line["who"]
        elif line.get("span") == RUN:
            self.ended = str(line["about"].get("jax.run.ended"))
        elif "span" in line:
            self.spans.append(line)
        else:
            self.moments.append(line)
            for name, loop in line["loops"].items():
                if loop["steps"] != self.stepped.get(name, (None,))[0]:
                    self.stepped[name] = loop["steps"], line["at"]


def read_flight(folder: Path) -> Flight | None:
    """What the recorder in a run's folder tells; None if there is nothing. A last line that was cut is left out.

    Raises OSError, and ValueError or KeyError for what is no recorder's.
    """
    flight = Flight()
    for path in (folder / BEFORE, folder / RECORDER):
        if path.is_file():
            lines = path.read_bytes().split(b"\n")
            for line in lines[:-1]:
                flight.add(printable_document(read_json(line)))
    return flight if flight.moments else None


def under_way(flight: Flight) -> str:
    """What was going on at the newest moment, in words; empty if nothing is known."""
    last = flight.last
    parts = [
        f"compiling {name} for {duration(spent)}" for name, spent in (last.get("compiling") or {}).items()
    ]
    parts += [f"in phase {name} for {duration(spent)}" for name, spent in (last.get("phases") or {}).items()]
    parts += [plain(hang_sentence(hang)) for hang in last["hang"]]
    if not parts and (running := last.get("running")):
        parts.append(f"the device ran {running['function']} for {duration(running['seconds'])}")
    return "; ".join(parts)


def story(flights: Sequence[Flight]) -> Iterator[TextTable | str]:
    """Which rank stopped first, all ranks beside each other, and what happened before, in the order of time."""
    ordered = sorted(flights, key=lambda flight: flight.stopped)
    first = ordered[0]
    name = " ".join(filter(None, (first.who.get("jaxobs.run"), first.who.get("jaxobs.run_id"))))
    ranks = f"{len(flights)} rank{'s' if len(flights) > 1 else ''}"
    yield f"{name}: {ranks}, seen until {_clock(max(flight.last['at'] for flight in flights))}"
    if len(flights) > 1 and ordered[1].stopped - first.stopped >= MIN_SECONDS:
        ahead = duration(ordered[1].stopped - first.stopped)
        yield f"rank {first.rank} stopped first, {ahead} before the next"
    table = TextTable(
        ("rank", "host", "last step", "at", "seen until", "end", "memory", "what was under way"),
        left=("rank", "host", "end", "what was under way"),
    )
    for flight in ordered:
        table.add(*_cells(flight))
    yield ""
    yield table
    yield from _before(ordered, first.stopped)


def _cells(flight: Flight) -> Iterator[str]:
    loop, steps, at = flight.last_step or ("", 0, flight.stopped)
    yield from (flight.rank, flight.who.get("host.name", ""))
    yield f"{count(steps)} of {loop}" if loop else "none"
    yield from (_clock(at), _clock(flight.last["at"]))
    yield flight.ended
    yield or_absent(flight.last.get("memory"), byte_size)
    yield under_way(flight)


def _before(flights: Iterable[Flight], stopped: float) -> Iterator[str]:
    told = sorted(
        (at, flight.rank, what) for flight in flights for at, what in _events(flight, stopped - TOLD_SECONDS)
    )
    if told:
        yield from ("", f"the last {duration(TOLD_SECONDS)} before that, and since")
    yield from (f"  {_clock(at)}  rank {rank}: {what}" for at, rank, what in told[-MAX_EVENTS:])


def _events(flight: Flight, since: float) -> Iterator[tuple[float, str]]:
    """What is worth telling of a rank: long compiles and phases, hangs, values that are not finite, memory that grows."""
    for span in flight.spans:
        if span["at"] >= since and span["seconds"] >= MIN_SECONDS:
            about = span["about"]
            what = about.get("jax.function") or about.get("jax.phase") or ""
            yield (
                span["at"],
                f"{span['span'].removeprefix('jax.')} {what} took {duration(span['seconds'])}".replace(
                    "  ", " "
                ),
            )
    lately = [each for each in flight.moments if each["at"] >= since]
    told: set[str] = set()
    for each in lately:
        news = [f"`{hang['loop']}` stands still" for hang in each["hang"]]
        for name, loop in each["loops"].items():
            news += [
                f"{key} of {name} is {value}"
                for key, value in loop["recorded"].items()
                if isinstance(value, str)
            ]
        for what in news:
            if what not in told:
                told.add(what)
                yield each["at"], what
    sizes = [each["memory"] for each in lately if each.get("memory")]
    if sizes and sizes[-1] > GREW * sizes[0]:
        yield (
            lately[-1]["at"],
            f"memory of the process grew from {byte_size(sizes[0])} to {byte_size(sizes[-1])}",
        )


def _clock(unix: float) -> str:
    return f"{datetime.fromtimestamp(unix).astimezone():%H:%M:%S}"
