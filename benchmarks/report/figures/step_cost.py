"""Cost of one observed step on the training thread beside its peers: `make benchmark NAME=step_cost`.

Each peer has a process of its own, with jaxobs in it, so that the threads of one peer disturb no other. There they take
turns of about a millisecond, each after a pause in which threads and processes beside can catch up. What the same loop
and call cost by themselves, in a turn of the same round, is taken off.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from benchmarks.paired import Interval, median, paired_ratio
from benchmarks.report.peers import JAXOBS, MARKS, PLAIN, Peer
from benchmarks.report.results import Cell, Demand, Measured, Section, Table
from benchmarks.report.turns import Asked, answer, take_turns

ROUNDS = 121
TURN_SECONDS = 0.001
"""Shorter than the scheduler's slices, so that most turns run through on a machine with more to do than cores."""
LEAST_IN_A_TURN = 3
PAUSE_SECONDS = 0.01
ALLOWED = 0.1
"""Of a bare span."""

Times = Mapping[str, list[float]]
STEP_COLUMNS = (
    "beside", "what it does", "it", "marked", "marked / it", "marked and watched", "both / it",
    "control: marked / marked",
)  # fmt: skip
VALUE_COLUMNS = ("beside", "what it does", "it", "jaxobs", "jaxobs / it", "control: jaxobs / jaxobs")

_STEPS = """What keeping the time of one step costs the training thread. *Marked* is the turn of
`obs.steps(range(…), examples=256)` around the same call that the peers time: its start and end, the wait for its input,
its examples. *Watched* is the call besides: when it was made, how long it took to return and what it ran. The peers keep
one duration, or a span, and nothing of the call. Each row is a process of its own with jaxobs and one peer in it,
{rounds} rounds of turns of about a millisecond; the plain loop with the same call is taken off. What the tools do on
other threads and in other processes is not in it. Of tools that hand over to a thread of theirs only a few calls make a
turn, so that its queue does not fill."""

_VALUES = """What handing over one value costs: `obs.record(loss=value)` beside the peers' own calls. They are not the
same service: `record` keeps the newest value of each name and reads it about once a second, for a gauge; the peers
keep each value with its step, and write it to a file."""


def nothing() -> None:
    """The user's function: a call and no more."""


def turns_beside(name: str) -> Times:
    """Seconds of one step, and of one value, in each round. Runs in a process of its own."""
    import jax  # noqa: F401  # as in a training job

    from jaxobs import instrument

    jaxobs, plain, peer = JAXOBS.begin(), PLAIN.begin(), MARKS[name].begin()
    mark, most = instrument().steps, MARKS[name].most

    def marked(count: int) -> None:
        for _ in mark(range(count), examples=256):
            nothing()

    loops: dict[str, Callable[[int], None]] = {
        "plain": lambda count: plain.steps(count, nothing),
        "marked": marked,
        "marked again": marked,
        "watched": lambda count: jaxobs.steps(count, nothing),
        "peer": lambda count: peer.steps(count, nothing),
    }
    if jaxobs.record is not None and peer.record is not None:
        loops |= {"record": jaxobs.record, "record again": jaxobs.record, "peer's record": peer.record}
    counts = {name: _as_many_as_suit(run, most) for name, run in loops.items() if name.startswith("peer")}
    time.sleep(2.0)  # the agent's start
    gc.collect()
    turns = {name: _turn(run, counts.get(name, JAXOBS.most)) for name, run in loops.items()}
    take_turns(turns, 1)  # what the first call of each makes is made
    found = take_turns(turns, ROUNDS)
    peer.end()
    for timed in ("marked", "marked again", "watched", "peer"):
        found[timed] = [with_it - bare for with_it, bare in zip(found[timed], found["plain"], strict=True)]
    return found


def _turn(run: Callable[[int], None], count: int) -> Callable[[], float]:
    def turn() -> float:
        time.sleep(PAUSE_SECONDS)
        run(count // 10 + 1)  # after the pause its code and data are no longer in the processor's caches
        return _seconds(run, count)

    return turn


def _seconds(run: Callable[[int], None], count: int) -> float:
    began = time.perf_counter()
    run(count)
    return (time.perf_counter() - began) / count


def _as_many_as_suit(run: Callable[[int], None], most: int) -> int:
    """For a peer, whose call may take microseconds or milliseconds."""
    each = _seconds(run, 10 * LEAST_IN_A_TURN)
    return min(most, max(LEAST_IN_A_TURN, round(TURN_SECONDS / each)))


def step_row(peer: Peer, times: Times) -> list[Cell]:
    """One peer beside a marked step, and beside one whose call is watched too."""
    its, marked, watched = (times[name] for name in ("peer", "marked", "watched"))
    figures: list[Cell] = [Measured(median(its), "s")]
    for ours in (marked, watched):
        figures += [Measured(median(ours), "s"), Measured(paired_ratio(ours, its))]
    return [peer.title, peer.does, *figures, Measured(paired_ratio(times["marked again"], marked))]


def value_row(peer: Peer, times: Times) -> list[Cell]:
    """One peer beside `obs.record`."""
    its, ours, again = (times[name] for name in ("peer's record", "record", "record again"))
    figures = [Measured(median(its), "s"), Measured(median(ours), "s")]
    does = peer.does.removeprefix("two clock readings and ")
    ratios = [Measured(paired_ratio(ours, its)), Measured(paired_ratio(again, ours))]
    return [peer.title, does, *figures, *ratios]


def measure() -> Section:
    """Step marks, and values, beside every peer that is installed."""
    missing = [reason for peer in MARKS.values() if (reason := peer.missing())]
    steps: dict[str, list[Cell]] = {}
    values: list[list[Cell]] = []
    for name, peer in MARKS.items():
        if peer.missing():
            continue
        with Asked(__name__, name) as process:
            times: Times = process.hear()
        steps[name] = step_row(peer, times)
        if "record" in times:
            values.append(value_row(peer, times))
    tables = [
        Table("One step", _STEPS.format(rounds=ROUNDS), STEP_COLUMNS, list(steps.values())),
        Table("One value of the user's own", _VALUES, VALUE_COLUMNS, values),
    ]
    return Section("Step marking", tables, demands(steps), missing)


def demands(steps: Mapping[str, Sequence[Cell]]) -> list[Demand]:
    """What the table must show; it goes by the medians."""
    found = []
    if "bare_span" in steps:
        ratio = _ratio(steps["bare_span"], "both / it")
        text = f"marking and watching a step costs at most a tenth of a bare OpenTelemetry span: {ratio}"
        found.append(Demand(text, ratio.middle <= ALLOWED))
    ratios = {name: _ratio(row, "marked / it") for name, row in steps.items()}
    dearer = [f"{MARKS[name].title} ({ratio})" for name, ratio in ratios.items() if ratio.middle >= 1]
    text = "marking a step is cheaper than with every peer beside it"
    return [*found, Demand(f"{text}: not than {', '.join(dearer)}" if dearer else text, not dearer)]


def _ratio(row: Sequence[Cell], column: str) -> Interval:
    cell = row[STEP_COLUMNS.index(column)]
    assert isinstance(cell, Measured)
    return cell.interval


if __name__ == "__main__":
    answer(turns_beside(sys.argv[1]))
