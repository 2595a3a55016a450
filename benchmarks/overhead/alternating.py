"""A training loop that is observed for a tenth of a second, plain for two, observed for one, and so on.

    python -m benchmarks.overhead.alternating MILLISECONDS HOW SECONDS

One process does both, so that its memory lies in the same places in both. It does so for its first minute, then for so
many seconds more, and prints what it found in each as JSON. HOW is `jaxobs` (steps marked, function watched, loss
recorded, everything at its default) or `plain`, the control, in which nothing differs. The agent is suspended in plain
blocks, so that all it does falls into the observed ones. The threads of jaxobs in the job cannot be suspended: what they
take in plain blocks is told beside.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

from benchmarks.overhead.model import LONG_STEP_MILLISECONDS, LOSS_READ_EVERY, TARGETS, train_step

BLOCK_SECONDS = 0.1
"""Short enough that the machine does not change from block to block, long beside what a switch of blocks costs."""

FIRST_MINUTE_SECONDS = 60.0

Block = Callable[[Any], Any]
"""Makes the steps of a block with these weights, and gives the new ones; the device has nothing left to do then."""


def main() -> None:
    """Alternate, and print the seconds a step in each pair of blocks."""
    milliseconds, how, seconds = float(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    step, weights, batch = train_step(*TARGETS[milliseconds])
    read_every = LOSS_READ_EVERY if milliseconds < LONG_STEP_MILLISECONDS else 1
    steps = read_every * max(1, round(BLOCK_SECONDS * 1e3 / milliseconds / read_every))

    def plain(weights: Any) -> Any:
        for done in range(1, steps + 1):
            weights, loss = step(weights, batch)
            if done % read_every == 0:
                float(loss)
        return weights

    observed = observed_block(step, batch, steps, read_every) if how == "jaxobs" else plain
    weights, first = alternate(observed, plain, weights, FIRST_MINUTE_SECONDS)
    weights, after = alternate(observed, plain, weights, seconds)
    json.dump({"steps": steps, "first": first, "after": after}, sys.stdout)


def observed_block(step: Any, batch: Any, steps: int, read_every: int) -> Block:
    """A block with everything of jaxobs; its loop is one loop over all blocks."""
    import jaxobs

    observer = jaxobs.instrument()
    watched, marks = observer.watch(step), iter(observer.steps(itertools.count(), examples=256))

    def observed(weights: Any) -> Any:
        for done in range(1, steps + 1):
            next(marks)
            weights, loss = watched(weights, batch)
            observer.record(loss=loss)
            if done % read_every == 0:
                float(loss)
        return weights

    return observed


def alternate(observed: Block, plain: Block, weights: Any, seconds: float) -> tuple[Any, dict[str, Any]]:
    """The weights, and nanoseconds of two blocks each, in an order in which steady changes fall on both alike."""
    found: dict[bool, list[int]] = {True: [], False: []}
    agents, threads, thread_seconds = list(_agents()), _threads(), 0.0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        took = {True: 0, False: 0}
        for is_observed in (True, False, False, True):
            for agent in agents:
                agent.send_signal(signal.SIGCONT if is_observed else signal.SIGSTOP)
            taken = 0.0 if is_observed else _seconds(threads)
            began = time.monotonic_ns()
            weights = (observed if is_observed else plain)(weights)
            took[is_observed] += time.monotonic_ns() - began
            thread_seconds += 0.0 if is_observed else _seconds(threads) - taken
        for which, nanoseconds in took.items():
            found[which].append(nanoseconds)
    plain_seconds = sum(found[False]) / 1e9
    return weights, {
        "observed": found[True],
        "plain": found[False],
        "threads": thread_seconds / plain_seconds,
    }


def _agents() -> Iterator[psutil.Process]:
    """The agent is no child of the job, and names the job in its command."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if f"job={os.getpid()}" in process.cmdline():
                yield process


def _threads() -> list[Path]:
    from jaxobs.plugin.threads import living

    return [Path(f"/proc/self/task/{thread.native}/schedstat") for thread in living()]


def _seconds(threads: list[Path]) -> float:
    """Processor seconds they have taken."""
    return sum(int(thread.read_text().split()[0]) for thread in threads if thread.exists()) / 1e9


if __name__ == "__main__":
    main()
