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

from benchmarks.costs.peers import JAXOBS, MARKS, PLAIN, here
from benchmarks.costs.processes import Asked, answer
from benchmarks.paired import median, paired_ratio, take_turns
from benchmarks.truths import Figure, Rows, interval

ROUNDS = 121
TURN_SECONDS = 0.001
"""Shorter than the scheduler's slices, so that most turns run through on a machine with more to do than cores."""
MIN_CALLS = 3
PAUSE_SECONDS = 0.01

RATIOS = (
    ("marked", "it"), ("marked and watched", "it"), ("marked again", "marked"),
    ("recorded", "recorded by it"), ("recorded again", "recorded"),
)  # fmt: skip
"""With `again` it is a control."""
ALLOWED = {("bare_span", "marked and watched"): 0.1} | {(name, "marked"): 1.0 for name in MARKS}
"""Of what the peer takes; judged by the medians."""

Times = Mapping[str, list[float]]


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
        "marked and watched": lambda count: jaxobs.steps(count, nothing),
        "it": lambda count: peer.steps(count, nothing),
    }
    if jaxobs.record is not None and peer.record is not None:
        loops |= dict.fromkeys(("recorded", "recorded again"), jaxobs.record) | {
            "recorded by it": peer.record
        }
    time.sleep(2.0)  # the agent's start
    gc.collect()
    turns = {
        kind: _turn(run, MARKS[name].max_calls if kind.endswith("it") else JAXOBS.max_calls)
        for kind, run in loops.items()
    }
    take_turns(turns, 1)  # what the first call of each makes is made
    found = take_turns(turns, ROUNDS)
    peer.end()
    for kind in ("marked", "marked again", "marked and watched", "it"):
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


def measure() -> Rows:
    """Step marks, and values, beside every peer that is installed."""
    for name, peer in here(MARKS).items():
        with Asked(__name__, name) as process:
            yield peer.title, beside(name, process.hear())


def beside(name: str, times: Times) -> Iterator[Figure]:
    """What each takes, and the ratios."""
    for kind, seconds in times.items():
        yield interval(kind, median(seconds), "s")
    for of, to in RATIOS:
        if of in times:
            most = ALLOWED.get((name, of))
            between = None if most is None else (0.0, most)
            yield interval(f"{of} / {to}", paired_ratio(times[of], times[to]), between=between)


if __name__ == "__main__":
    answer(turns_beside(sys.argv[1]))
