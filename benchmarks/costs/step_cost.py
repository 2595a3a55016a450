"""Cost of one observed step on the training thread beside its peers: `make benchmark NAME=step_cost`.

Each peer has a process of its own, with jaxobs in it, so that the threads of one peer disturb no other. There they take
turns of about a millisecond, each after a pause in which threads and processes beside can catch up. What the same loop
and call cost by themselves, in a turn of the same round, is taken off.

*Marked* is a turn of `obs.steps(range(…), examples=256)`; *watched* adds the call of a watched function. The peers keep
one duration, or a span. A value of the user's own is `obs.record(loss=value)`, which is read about once a second; the
peers write each to a file.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator, Mapping

from benchmarks.costs.peers import JAXOBS, MARKS, PLAIN, missing
from benchmarks.costs.processes import Asked, answer
from benchmarks.costs.sections import Section, middle, ratio, table
from benchmarks.paired import paired_ratio, take_turns
from benchmarks.truths import Figure

ROUNDS = 121
TURN_SECONDS = 0.001
"""Shorter than the scheduler's slices, so that most turns run through on a machine with more to do than cores."""
MIN_CALLS = 3
PAUSE_SECONDS = 0.01
ALLOWED = 0.1
"""Of a bare span."""

Times = Mapping[str, list[float]]
STEP_COLUMNS = ("beside", "it", "marked", "marked / it", "marked and watched", "both / it")
VALUE_COLUMNS = ("beside", "it", "jaxobs", "jaxobs / it")


def nothing() -> None:
    """The user's function: a call and no more."""


def turns_beside(name: str) -> Times:
    """Seconds of one step, and of one value, in each round. Runs in a process of its own."""
    import jax  # noqa: F401  # as in a training job

    from jaxobs import instrument

    jaxobs, plain, peer = JAXOBS.begin(), PLAIN.begin(), MARKS[name].begin()
    mark = instrument().steps

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
    time.sleep(2.0)  # the agent's start
    gc.collect()
    turns = {
        kind: _turn(run, MARKS[name].max_calls if kind.startswith("peer") else JAXOBS.max_calls)
        for kind, run in loops.items()
    }
    take_turns(turns, 1)  # what the first call of each makes is made
    found = take_turns(turns, ROUNDS)
    peer.end()
    for kind in ("marked", "marked again", "watched", "peer"):
        found[kind] = [with_it - bare for with_it, bare in zip(found[kind], found["plain"], strict=True)]
    return found


def _turn(run: Callable[[int], None], max_calls: int) -> Callable[[], float]:
    """As many calls as fill a turn: one may take nanoseconds or milliseconds.

    Found by doubling, as few calls take longer each: a pass through a loop costs as much as some thirty steps.
    """
    count = MIN_CALLS
    while count < max_calls and count * min(_seconds(run, count) for _ in range(3)) < TURN_SECONDS:
        count = min(2 * count, max_calls)

    def turn() -> float:
        time.sleep(PAUSE_SECONDS)
        run(count // 10 + 1)  # after the pause its code and data are no longer in the processor's caches
        return _seconds(run, count)

    return turn


def _seconds(run: Callable[[int], None], count: int) -> float:
    began = time.perf_counter()
    run(count)
    return (time.perf_counter() - began) / count


def measure() -> Section:
    """Step marks, and values, beside every peer that is installed."""
    found: dict[str, Times] = {}
    for name, peer in MARKS.items():
        if not peer.missing():
            with Asked(__name__, name) as process:
                found[name] = process.hear()
    steps = [
        [MARKS[name].title, *beside(times, "peer", "marked", "watched")] for name, times in found.items()
    ]
    recorded = {name: times for name, times in found.items() if "record" in times}
    values = [
        [MARKS[name].title, *beside(times, "peer's record", "record")] for name, times in recorded.items()
    ]
    marked = [paired_ratio(times["marked again"], times["marked"]) for times in found.values()]
    again = [paired_ratio(times["record again"], times["record"]) for times in recorded.values()]
    tables = [
        table("One step", STEP_COLUMNS, steps, marked),
        table("One value of the user's own", VALUE_COLUMNS, values, again),
    ]
    return Section("Step marking", tables, list(demands(found)), missing(MARKS))


def beside(times: Times, peer: str, *ours: str) -> list[str]:
    """The peer's, and each of ours with its ratio to it."""
    its = times[peer]
    return [middle(its), *(cell for one in ours for cell in (middle(times[one]), ratio(times[one], its)))]


def demands(found: Mapping[str, Times]) -> Iterator[Figure]:
    """What the table must show; it goes by the medians."""
    for name, times in found.items():
        marked = paired_ratio(times["marked"], times["peer"])
        yield Figure(f"marked / {MARKS[name].title}", marked.middle, between=(0.0, 1.0), note=str(marked))
    both = paired_ratio(found["bare_span"]["watched"], found["bare_span"]["peer"])
    yield Figure("marked and watched / a bare span", both.middle, between=(0.0, ALLOWED), note=str(both))


if __name__ == "__main__":
    answer(turns_beside(sys.argv[1]))
