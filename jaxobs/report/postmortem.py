"""One story of a run that ended badly, from what the flight recorders of its ranks kept."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from jaxobs.report.markup import Element, card, table, tag, whole_page, with_code
from jaxobs.report.ranks import the_other
from jaxobs.report.sentence import clock, plain, slowdown_sentence
from jaxobs.report.tables import Column
from jaxobs.report.text_table import TextTable
from jaxobs.vocabulary.activities import DEVICE
from jaxobs.vocabulary.text import read_json
from jaxobs.vocabulary.units import byte_size, count, duration, or_absent

RECORDER: Final = "recorder.jsonl"
BEFORE: Final = "recorder.before"

WHO: Final = re.compile(rb'\{"at":[^,]*,"who":')
"""The beginning of a line with whose recorder it is."""

Moment = Mapping[str, Any]
"""A line of a recorder: `at` in Unix seconds, and `who`, `span`, `slowdown`, or what was known at that moment."""

Start = tuple[str | None, str | None]
"""One start of one run: launched runs keep their id when they are started again."""

MAX_BYTES: Final = 4_000_000
"""Most bytes that are read of a file; a recorder's has an eighth of that."""

TOLD_SECONDS: Final = 120.0
"""Seconds before the first rank stopped from which on events are told."""

MAX_EVENTS: Final = 40
MIN_SECONDS: Final = 1.0
"""Seconds from which on a compile or phase is told: shorter ones are ordinary."""

SILENT_SECONDS: Final = 5.0
"""Seconds without a line after which a rank has stopped: by default it has one each second, on a busy machine a little
later."""

GREW: Final = 1.1
"""Growth of the memory in these seconds from which on it is told."""


@dataclass(slots=True)
class Flight:
    """What one process's recorder tells. Times are Unix seconds."""

    who: Mapping[str, str] = field(default_factory=dict)
    moments: list[Moment] = field(default_factory=list)
    spans: list[Moment] = field(default_factory=list)
    stacks: Moment | None = None
    """The newest line with the stacks of all threads, which stood in `loop`; None if it never stood still."""
    slowdowns: list[tuple[float, str]] = field(default_factory=list)
    """Sentences, and when they were kept."""
    broken: int = 0
    """Lines that could not be read."""
    stepped: dict[str, tuple[int, float | None]] = field(default_factory=dict)
    """By loop, the steps that had ended, and when that number was first seen; None if it was before the first moment."""
    gone_wrong: dict[tuple[str, str, str], tuple[float, str]] = field(default_factory=dict)
    """When a value of the user's was first seen not to be finite, or with this leap, and in words: by loop and name."""

    @property
    def start(self) -> Start:
        """Which start of which run it is."""
        return self.who.get("jaxobs.run_id"), self.who.get("jaxobs.attempt")

    @property
    def rank(self) -> str:
        return self.who.get("jax.process_index", "–")

    @property
    def last(self) -> Moment:
        """The newest moment."""
        return self.moments[-1]

    @property
    def spacing(self) -> float:
        """Mean seconds between two moments, as JAXOBS_INTERVAL has them; what a rank did is known no more closely."""
        return float(self.last["at"] - self.moments[0]["at"]) / max(1, len(self.moments) - 1)

    @property
    def ended(self) -> str:
        """How the job ended, as far as its agent saw it."""
        return str(self.last.get("ended") or "no end was seen")

    @property
    def last_step(self) -> tuple[str, int, float | None] | None:
        """The loop whose step ended last, that step's number, and when as in `stepped`; None if there was none."""
        newest = max(self.stepped, key=lambda name: self.stepped[name][1] or 0.0, default=None)
        return None if newest is None else (newest, *self.stepped[newest])

    @property
    def stopped(self) -> float | None:
        """When it last got on; None if that was before the first moment."""
        return None if self.last_step is None else self.last_step[2]

    def add(self, line: Moment) -> None:
        """Add the next line."""
        if "who" in line:
            self.who = line["who"]
        elif "span" in line:
            self.spans.append(line)
        elif "stacks" in line:
            self.stacks = line
        elif "slowdown" in line:
            self.slowdowns.append((line["at"], plain(slowdown_sentence(line["slowdown"]))))
        else:
            for name, loop in line["loops"].items():
                if loop["steps"] != self.stepped.get(name, (None,))[0]:
                    self.stepped[name] = loop["steps"], float(line["at"]) if self.moments else None
                first = f"is not finite, first seen after {count(loop['steps'], 'step')}"
                wrong = [(key, "", first) for key, value in loop["recorded"].items() if value is None]
                wrong += [(key, leap, leap) for key, leap in loop.get("leaps", {}).items()]
                for key, which, said in wrong:
                    self.gone_wrong.setdefault((name, key, which), (float(line["at"]), said))
            self.moments.append(line)


def read_flight(folder: Path, start: Start | None = None) -> Flight | None:
    """What the recorder in a run's folder tells; None if there is nothing. A last line that was cut is left out.

    Lines that are no recorder's are counted. With `start`, None for any other start, most of whose lines are not read.
    Raises OSError.
    """
    flight = Flight()
    lines: list[bytes] = []
    for path in (folder / BEFORE, folder / RECORDER):
        if path.is_file():
            with path.open("rb") as file:
                lines += file.read(MAX_BYTES).split(b"\n")[:-1]
    for line in sorted(lines, key=lambda line: not WHO.match(line)):
        try:
            flight.add(_checked(read_json(line)))
        except (ValueError, TypeError, KeyError, AttributeError):
            flight.broken += 1
        if start and flight.moments and flight.start != start:
            return None
    return flight if flight.moments else None


def _checked(line: Any) -> Moment:
    """The line with its time as a number. Raises ValueError, TypeError or KeyError for what is no line of a recorder."""
    if not isinstance(line.get("who", {}), dict) or not isinstance(line.get("loops", {}), dict):
        raise TypeError("a part that is no object")
    for thread in line.get("stacks", ()):
        " ".join([thread["name"], *thread["frames"]])  # raises where one of them is no text
    return {"hang": [], **line, "at": float(line["at"])}


def under_way(flight: Flight) -> str:
    """What was going on at the newest moment, in words; empty if nothing is known."""
    last = flight.last
    parts = [
        f"{word} {name} for {duration(spent)}"
        for word, key in (("compiling", "compiling"), ("in phase", "phases"))
        for name, spent in (last.get(key) or {}).items()
    ]
    parts += [
        f"no step for {duration(hang['seconds'])}: {hang['line'] or hang['line_reason']}"
        for hang in last["hang"]
    ]
    if not parts and (running := last.get("running")):
        parts.append(f"the device ran {running['function']} for {duration(running['seconds'])}")
    return "; ".join(parts)


def divergence(ordered: Sequence[Flight]) -> tuple[Flight, str] | None:
    """Which of the ranks, in the order in which they stopped, did something else than all others first, and what.

    In collectives all stop at about the same time: then it is the one with fewer steps than any other, else the one that
    was killed, before the others were seen last, else the one that stands still and does not wait for the device, else
    the one that stands at another line than all others. None if there is no such rank.
    """
    first, *others = ordered
    stops = [flight.stopped for flight in ordered if flight.stopped is not None]
    earlier = max(flight.spacing for flight in ordered)
    earlier = max(earlier, MIN_SECONDS if _stood_still(first) else SILENT_SECONDS)
    if len(stops) == len(ordered) > 1 and stops[1] - stops[0] >= earlier:
        return first, f"stopped first, {duration(stops[1] - stops[0])} before the next"
    if not others or len({flight.last_step and flight.last_step[0] for flight in ordered}) > 1:
        return None
    by_steps = sorted(ordered, key=_steps)
    fewest, (steps, more) = by_steps[0], map(_steps, by_steps[:2])
    if steps < more and all(map(_stood_still, ordered)):
        fewer = f"{count(steps, 'step')} where the others had done {count(more)} or more"
        return fewest, f"stopped first, after {fewer}"
    killed = [flight for flight in ordered if flight.ended == "killed"]
    if len(killed) == 1 and killed[0].last["at"] <= min(flight.last["at"] for flight in ordered):
        return killed[0], "was killed, and no other"
    return _apart(ordered)


def _apart(flights: Sequence[Flight]) -> tuple[Flight, str] | None:
    """The one rank that stands still elsewhere than all others."""
    still = [(flight, hang) for flight in flights for hang in flight.last["hang"]]
    own = [flight for flight, hang in still if hang.get("activity") != DEVICE]
    if len(own) == 1:
        return own[0], "stood still by itself, and no other"
    apart = the_other([hang.get("line") for _, hang in still])
    if apart is not None and len(still) == len(flights):
        return still[apart][0], "stood at another line than all others"
    return None


def _stood_still(flight: Flight) -> bool:
    """Whether the recorder outlived the last step: else the rank may have done more, of which nothing was kept."""
    return bool(flight.last["at"] - (flight.stopped or 0.0) >= MIN_SECONDS)


def _steps(flight: Flight) -> int:
    return flight.last_step[1] if flight.last_step else 0


def in_order(flights: Sequence[Flight]) -> list[Flight]:
    """The ranks in the order in which they stopped."""
    return sorted(flights, key=lambda flight: flight.stopped or 0.0)


def as_data(flights: Sequence[Flight]) -> list[dict[str, Any]]:
    """The story as plain data: an object for each rank, in the order in which they stopped."""
    ordered = in_order(flights)
    parted, since = divergence(ordered), _told_since(ordered)
    return [
        {
            "who": dict(flight.who), "loop": loop, "steps": steps, "last_step": at, "seen_until": flight.last["at"],
            "ended": flight.ended, "under_way": under_way(flight), "last": dict(flight.last),
            "differs": parted[1] if parted and parted[0] is flight else None,
            "stacks": flight.stacks and flight.stacks["stacks"],
            "events": [{"at": when, "event": what} for when, what in sorted(_events(flight, since))],
        }
        for flight in ordered
        for loop, steps, at in [flight.last_step or (None, None, None)]
    ]  # fmt: skip


def _told_since(ordered: Sequence[Flight]) -> float:
    """The moment from which on events are told."""
    first = ordered[0]
    return (first.moments[0]["at"] if first.stopped is None else first.stopped) - TOLD_SECONDS


def story(flights: Sequence[Flight]) -> Iterator[TextTable | str]:
    """Which rank stopped first, all ranks beside each other, and what happened before, in the order of time."""
    ordered = in_order(flights)
    first = ordered[0]
    name = " ".join(filter(None, (first.who.get("jaxobs.run"), first.who.get("jaxobs.run_id"))))
    ranks = count(len(flights), "rank")
    yield f"{name}: {ranks}, seen until {clock(max(flight.last['at'] for flight in flights))}"
    parted = divergence(ordered)
    if parted is not None:
        yield f"rank {parted[0].rank} {parted[1]}"
    table = TextTable(
        ("rank", "host", "last step", "at", "seen until", "end", "memory", "what was under way"),
        left=("rank", "host", "end", "what was under way"),
    )
    for flight in ordered:
        loop, steps, at = flight.last_step or ("", 0, None)
        table.add(
            flight.rank, flight.who.get("host.name", ""), f"{count(steps)} of {loop}" if loop else "none",
            f"before {clock(flight.moments[0]['at'])}" if at is None else clock(at), clock(flight.last["at"]),
            flight.ended, or_absent(flight.last.get("memory"), byte_size), under_way(flight),
        )  # fmt: skip
    yield from ("", table)
    yield from _stacks(parted[0] if parted else first)
    since = _told_since(ordered)
    told = sorted((at, flight.rank, what) for flight in ordered for at, what in _events(flight, since))
    if told:
        yield from ("", f"the last {duration(TOLD_SECONDS)} before that, and since")
    yield from (f"  {clock(at)}  rank {rank}: {what}" for at, rank, what in told[-MAX_EVENTS:])
    if broken := sum(flight.broken for flight in flights):
        yield from ("", f"{broken} lines could not be read")


def story_page(flights: Sequence[Flight]) -> str:
    """The story as an HTML document that needs nothing else."""
    title, *parts = story(flights)
    elements = [_element(part, "p" if before else "h4") for before, part in pairwise([title, *parts]) if part]
    return whole_page(f"{title} · jaxobs", tag("main", card(str(title), *elements, name="postmortem")))


def _element(part: TextTable | str, name: str) -> Element | None:
    if isinstance(part, str):
        return tag(name, *with_code(part.strip()))
    columns = [Column(title, itemgetter(title), text=title in part.left) for title in part.columns]
    rows = [dict(zip(part.columns, row, strict=True)) for row in part.rows]
    return table(columns, rows, caption="ranks")


def _stacks(flight: Flight) -> Iterator[str]:
    """The stacks of the threads of a rank that stood still."""
    if flight.stacks is not None:
        yield ""
        yield f"threads of rank {flight.rank} at {clock(flight.stacks['at'])}, the innermost frame first"
        for thread in flight.stacks["stacks"]:
            of_loop = f" (runs {flight.stacks['loop']})" if thread["of_loop"] else ""
            yield f"  {thread['name']}{of_loop}: {' ← '.join(thread['frames'])}"


def _events(flight: Flight, since: float) -> Iterator[tuple[float, str]]:
    """What is worth telling of a rank: long compiles and phases, hangs, values that are not finite, memory that grows.

    Slowdowns and values that are not finite are told whenever they began: what came later may have come of them.
    """
    yield from flight.slowdowns
    for span in flight.spans:
        if span["at"] >= since and span["seconds"] >= MIN_SECONDS:
            about = span["about"]
            what = about.get("jax.function") or about.get("jax.phase") or ""
            words = (span["span"].removeprefix("jax."), what, "took", duration(span["seconds"]))
            yield span["at"], " ".join(filter(None, words))
    lately = [each for each in flight.moments if each["at"] >= since]
    stands_since = {hang["loop"]: each["at"] for each in reversed(lately) for hang in each["hang"]}
    yield from ((at, f"`{name}` stands still") for name, at in stands_since.items())
    for (name, key, _), (at, said) in flight.gone_wrong.items():
        yield at, f"`{key}` of `{name}` {said}"
    sizes = [each["memory"] for each in lately if each.get("memory")]
    if sizes and sizes[-1] > GREW * sizes[0]:
        grew = f"memory of the process grew from {byte_size(sizes[0])} to {byte_size(sizes[-1])}"
        yield lately[-1]["at"], grew
