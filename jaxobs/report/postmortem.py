"""One story of a run that ended badly, from what the flight recorders of its ranks kept."""

from __future__ import annotations

import re
import statistics
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from jaxobs.report.markup import Element, card, table, tag, whole_page, with_code
from jaxobs.report.ranks import in_progress, waited_for, waits
from jaxobs.report.runs import REPORT
from jaxobs.report.sentence import clock, plain, slowdown_sentence
from jaxobs.report.tables import Column
from jaxobs.report.text_table import TextTable, first_of
from jaxobs.vocabulary.text import read_json
from jaxobs.vocabulary.units import byte_size, count, duration, or_absent

RECORDER: Final = "recorder.jsonl"
BEFORE: Final = "recorder.before"

WHO: Final = re.compile(rb'\{"at":[^,]*,"who":')
"""The beginning of a line with whose recorder it is."""

Moment = Mapping[str, Any]
"""A line of a recorder: `at` in Unix seconds, and `who`, `span`, `slowdown`, or what was known at that moment."""

Start = tuple[str | None, ...]
"""One start of one run: launched runs keep their id when they are started again, perhaps with fewer processes."""

MAX_BYTES: Final = 4_000_000
"""Most bytes that are read of a file; a recorder's has an eighth of that."""

TOLD_SECONDS: Final = 120.0
"""Seconds before the first rank stopped from which on events are told."""

MAX_EVENTS: Final = 40
MAX_RANKS: Final = 5
"""Ranks that are named with the same event."""

MIN_SECONDS: Final = 1.0
"""Seconds from which on a compile or phase is told: shorter ones are ordinary."""

SILENT_SECONDS: Final = 5.0
"""Seconds without a line after which a rank has stopped: by default it has one each second, on a busy machine a little
later."""

MIN_COMPARED: Final = 3
"""Steps at which two ranks were seen, from which on their clocks are compared."""

GREW: Final = 1.1
"""Growth of the memory in these seconds from which on it is told."""


@dataclass(slots=True)
class Flight:
    """What one process's recorder tells. Times are Unix seconds."""

    who: Mapping[str, str] = field(default_factory=dict)
    moments: list[Moment] = field(default_factory=list)
    spans: list[tuple[float, str]] = field(default_factory=list)
    """Long compiles, phases and profiler windows, and when they ended."""
    stacks: Moment | None = None
    """The newest line with the stacks of all threads, which stood in `loop`; None if it never stood still."""
    known: list[tuple[float, str]] = field(default_factory=list)
    """Slowdowns and reports that memory ran out, and when they were kept."""
    ahead: float = 0.0
    """Seconds by which the clock of its host was ahead of the others', taken from all its times."""
    broken: int = 0
    """Lines that could not be read."""
    stepped: dict[str, tuple[int, float | None]] = field(default_factory=dict)
    """By loop, the steps that had ended, and when that number was first seen; None if it was before the first moment."""
    reached: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    """By loop, each number of steps, and when it was first seen."""
    gone_wrong: dict[tuple[str, str, str], tuple[float, str]] = field(default_factory=dict)
    """When a value of the user's was first seen not to be finite, or with this leap, and in words: by loop and name."""

    @property
    def start(self) -> Start:
        """Which start of which run it is."""
        return tuple(map(self.who.get, ("jaxobs.run_id", "jaxobs.attempt", "jax.process_count")))

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
    def began(self) -> float | None:
        """When the process began; None where that was not kept."""
        return None if "seconds" not in self.last else float(self.last["at"] - self.last["seconds"])

    @property
    def counts_all(self) -> bool:
        """Whether it counted all steps: earlier ones are lost with an agent."""
        return not self.last.get("counts_begin_seconds")

    @property
    def before_end(self) -> Moment:
        """The newest moment of the running job: at its own end an exception has left all that was under way."""
        return next((each for each in self.moments[:-3:-1] if not each.get("ended")), self.last)

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
            self.spans += [(line["at"], _span(line))] if line["seconds"] >= MIN_SECONDS else []
        elif "stacks" in line:
            self.stacks = line
        elif "slowdown" in line:
            self.known.append((line["at"], plain(slowdown_sentence(line["slowdown"]))))
        else:
            under_way(line)  # raises where that cannot be told
            for name, loop in line["loops"].items():
                first = f"is not finite, first seen after {count(loop['steps'], 'step')}"
                if loop["steps"] != self.stepped.get(name, (None,))[0]:
                    self.stepped[name] = loop["steps"], line["at"] if self.moments else None
                    self.reached.setdefault(name, []).append((loop["steps"], line["at"]))
                wrong = [(key, "", first) for key, value in loop["recorded"].items() if value is None]
                wrong += [(key, leap, leap) for key, leap in loop.get("leaps", {}).items()]
                for key, which, said in wrong:
                    self.gone_wrong.setdefault((name, key, which), (float(line["at"]), said))
            if len(self.moments) > 1:  # of hundreds of ranks all of it takes gigabytes
                self.moments[-2] = {key: self.moments[-2].get(key) for key in ("at", "hang", "memory")}
            self.moments.append(line)


def read_flight(folder: Path, start: Start | None = None, ahead: float = 0.0) -> Flight | None:
    """What the recorder in a run's folder tells; None if there is nothing. A last line that was cut is left out.

    Lines that are no recorder's are counted. With `start`, None for any other start, most of whose lines are not read.
    Raises OSError.
    """
    flight = Flight(ahead=ahead, known=list(_out_of_memory(folder, ahead)))
    lines: list[bytes] = []
    for path in (folder / BEFORE, folder / RECORDER):
        if path.is_file():
            with path.open("rb") as file:
                lines += file.read(MAX_BYTES).split(b"\n")[:-1]
    for line in sorted(lines, key=lambda line: not WHO.match(line)):
        try:
            flight.add(_checked(read_json(line), ahead))
        except (ValueError, TypeError, KeyError, AttributeError):
            flight.broken += 1
        if start and flight.moments and flight.start != start:
            return None
    return flight if flight.moments else None


def _out_of_memory(folder: Path, ahead: float) -> Iterator[tuple[float, str]]:
    """The reports in a run's folder that memory ran out, and when."""
    for report in folder.glob(f"{REPORT}*"):
        with suppress(ValueError):  # it has a name of another's
            at = datetime.strptime(report.name.removeprefix(REPORT)[:15] + "Z", "%Y%m%dT%H%M%S%z")
            yield at.timestamp() - ahead, f"memory ran out: {report} tells what held it"


def _checked(line: Any, ahead: float) -> Moment:
    """The line with its time as a number. Raises ValueError, TypeError or KeyError for what is no line of a recorder."""
    if not isinstance(line.get("who", {}), dict) or not isinstance(line.get("loops", {}), dict):
        raise TypeError("a part that is no object")
    for thread in line.get("stacks", ()):
        " ".join([thread["name"], *thread["frames"]])  # raises where one of them is no text
    return {"hang": [], **line, "at": float(line["at"]) - ahead}


def under_way(moment: Moment) -> str:
    """What was going on at a moment, in words; empty if nothing is known."""
    parts = in_progress(moment)
    parts += [
        f"no step for {duration(hang['seconds'])}: {hang['line'] or hang['line_reason']}"
        for hang in moment["hang"]
    ]
    if not parts and (running := moment.get("running")):
        parts.append(f"the device ran {running['function']} for {duration(running['seconds'])}")
    return "; ".join(parts)


def clocks_ahead(flights: Sequence[Flight]) -> list[float]:
    """By how many seconds each rank's clock is ahead of the others'; 0 where that is not known.

    Ranks of one run do the same steps at the same time, and begin together: both must tell the same.
    """
    found = [_ahead(each, flights[0]) for each in flights]
    usual = statistics.median_low(found)
    return [each - usual for each in found]


def _ahead(one: Flight, other: Flight) -> float:
    last = other.last_step
    if last is None or one.began is None or other.began is None or not (one.counts_all and other.counts_all):
        return 0.0
    seen, gaps = other.reached[last[0]], list[float]()
    for steps, at in one.reached.get(last[0], [])[1:]:
        place = bisect_left(seen, steps, key=itemgetter(0))
        gaps += [at - seen[place][1]] if 0 < place < len(seen) else []
    if len(gaps) < MIN_COMPARED:
        return 0.0
    gap, apart = statistics.median(gaps), one.began - other.began
    agree = max(*gaps, apart) - min(*gaps, apart) < abs(gap) / 2
    return gap if agree and abs(gap) >= SILENT_SECONDS else 0.0


def divergence(ordered: Sequence[Flight]) -> tuple[Flight, str] | None:
    """Which of the ranks, in the order in which they stopped, did something else than all others first, and what.

    It is the one for which the others waited, else the one that stopped earlier than all others, was over before them, or
    alone was killed. None if there is no such rank.
    """
    first, *others = ordered
    if not others or all(flight.ended == "ended" for flight in ordered):
        return None
    rows = [_row(flight) for flight in ordered]
    if len(waited := waited_for(rows)) == 1:
        return waited[0][0]["flight"], f"stood still: {waited[0][1]}"
    stops = [flight.stopped for flight in ordered if flight.stopped is not None]
    apart = 2 * max(flight.spacing for flight in ordered)  # of each rank it is known no more closely
    earlier = max(apart, MIN_SECONDS if _stood_still(first) else SILENT_SECONDS)
    # Where all wait for one, a host that runs ahead of its device goes on for longer than one that does not.
    may_wait = waits(rows[0]) and any(row["hang"] for row in rows[1:])
    is_earlier = len(stops) == len(ordered) and stops[1] - stops[0] >= earlier
    if is_earlier and not may_wait and not _is_furthest(first, others):
        how = "stopped first" if _stood_still(first) else f"was seen no more ({first.ended})"
        return first, f"{how}, {duration(stops[1] - stops[0])} before the next"
    return _over_first(ordered, apart)


def _is_furthest(one: Flight, others: Sequence[Flight]) -> bool:
    """Whether no other has ended more steps of its last loop: then their times cannot tell who stopped first."""
    loop, steps, _ = one.last_step or ("", 0, None)
    known = all(flight.counts_all and loop in flight.stepped for flight in (one, *others))
    return known and steps >= max(flight.stepped[loop][0] for flight in others)


def _row(flight: Flight) -> dict[str, Any]:
    """The rank as it is compared with the others."""
    hang, ranks = next(iter(flight.before_end["hang"]), None), flight.who.get("jax.process_count", "")
    if hang and not flight.counts_all:
        hang = {**hang, "steps": None}
    known = {"flight": flight, "hang": hang, "problem": None, "doing": in_progress(flight.before_end)}
    return {**known, "ranks": int(ranks) if ranks.isdecimal() else 1}


def _over_first(flights: Sequence[Flight], apart: float) -> tuple[Flight, str] | None:
    """The rank that was over, or seen no more, before all others were, or that alone was killed."""
    one, *later = sorted(flights, key=lambda flight: (flight.last["at"], flight.ended != "killed"))
    before = later[0].last["at"] - one.last["at"]
    if one.ended != "running" and before >= max(SILENT_SECONDS, apart):
        how = "was over first" if one.last.get("ended") else "was seen no more"
        return one, f"{how} ({one.ended}), {duration(before)} before the next"
    if [flight for flight in flights if flight.ended == "killed"] == [one]:
        return one, "was killed, and no other is known to have been"
    return None


def _stood_still(flight: Flight) -> bool:
    """Whether the recorder outlived the last step: else the rank may have done more, of which nothing was kept."""
    return bool(flight.last["at"] - (flight.stopped or 0.0) >= MIN_SECONDS)


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
            "ended": flight.ended, "under_way": under_way(flight.before_end), "last": dict(flight.last),
            "clock_ahead": flight.ahead,
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
    seen, ranks = len(flights), max(_row(flight)["ranks"] for flight in flights)
    known = count(seen, "rank") if seen >= ranks else f"{seen} of {count(ranks)} ranks"
    yield f"{name}: {known}, seen until {clock(max(flight.last['at'] for flight in flights))}"
    parted = divergence(ordered)
    if parted is not None:
        yield f"rank {parted[0].rank} {parted[1]}"
    for flight in ordered:
        if flight.ahead:
            by = f"{duration(abs(flight.ahead))} {'ahead of' if flight.ahead > 0 else 'behind'}"
            yield f"the clock of rank {flight.rank} was {by} the others': its times are given by theirs"
    table = TextTable(
        ("rank", "host", "last step", "at", "seen until", "end", "memory", "what was under way"),
        left=("rank", "host", "end", "what was under way"),
    )
    for flight in ordered:
        loop, steps, at = flight.last_step or ("", 0, None)
        table.add(
            flight.rank, flight.who.get("host.name", ""),
            f"{'' if flight.counts_all else 'at least '}{count(steps)} of {loop}" if loop else "none",
            f"before {clock(flight.moments[0]['at'])}" if at is None else clock(at), clock(flight.last["at"]),
            flight.ended, or_absent(flight.last.get("memory"), byte_size), under_way(flight.before_end),
        )  # fmt: skip
    yield from ("", table)
    yield from _stacks(parted[0] if parted else first)
    since = _told_since(ordered)
    alike, times = dict[tuple[str, int], list[tuple[float, str]]](), Counter[tuple[str, str]]()
    for at, rank, what in sorted(
        (at, each.rank, what) for each in ordered for at, what in _events(each, since)
    ):
        times[rank, what] += 1
        alike.setdefault((what, times[rank, what]), []).append((at, rank))
    if alike:
        yield from ("", f"the last {duration(TOLD_SECONDS)} before that, and since")
    for (what, _), told in list(alike.items())[-MAX_EVENTS:]:
        who = f"rank{'s' * (len(told) > 1)} {first_of([rank for _, rank in told], MAX_RANKS)}"
        yield f"  {clock(told[0][0])}  {who}: {what}"
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
    """The stacks of the threads of a rank that stood still at its end."""
    if flight.stacks is not None and flight.before_end["hang"]:
        yield ""
        yield f"threads of rank {flight.rank} at {clock(flight.stacks['at'])}, the innermost frame first"
        for thread in flight.stacks["stacks"]:
            of_loop = f" (runs {flight.stacks['loop']})" if thread["of_loop"] else ""
            yield f"  {thread['name']}{of_loop}: {' ← '.join(thread['frames'])}"


def _span(line: Moment) -> str:
    what = line["about"].get("jax.function") or line["about"].get("jax.phase") or ""
    said = (line["span"].removeprefix("jax."), what, "took", duration(line["seconds"]))
    return " ".join(filter(None, said))


def _events(flight: Flight, since: float) -> Iterator[tuple[float, str]]:
    """What is worth telling of a rank: long compiles and phases, hangs, values that are not finite, memory that grows.

    That is told from the first step on: before it a job makes what it trains. Slowdowns, memory that ran out and values
    that are not finite are told whenever they began: what came later may have come of them.
    """
    yield from flight.known
    yield from (span for span in flight.spans if span[0] >= since)
    lately = [each for each in flight.moments if each["at"] >= since]
    stands_since = {hang["loop"]: each["at"] for each in reversed(lately) for hang in each["hang"]}
    yield from ((at, f"`{name}` stands still") for name, at in stands_since.items())
    for (name, key, _), (at, said) in flight.gone_wrong.items():
        yield at, f"`{key}` of `{name}` {said}"
    stepped = min((at for told in flight.reached.values() for steps, at in told if steps), default=since)
    sizes = [each["memory"] for each in lately if each.get("memory") and each["at"] >= stepped]
    if sizes and sizes[-1] > GREW * sizes[0]:
        grew = f"memory of the process grew from {byte_size(sizes[0])} to {byte_size(sizes[-1])}"
        yield lately[-1]["at"], grew
