"""What counting live arrays costs the job: `python benchmarks/live_array_census.py [arrays …]`.

For each number of arrays: what listing them all takes (it holds the interpreter lock and cannot be interrupted), what the
memory probe does instead within its budget, the longest it held the lock, and by how much it delayed the steps of a loop
that runs Python all the time, compared with the same loop without it. Exit status 1: with the probe the lock was held,
or a step was delayed, for more than 2 ms. Both are medians, of rounds with and without it in turn: other programs delay
a step too, and for longer.
"""

import statistics
import sys
import threading
import time
from typing import Any

import jax
import jax.numpy as jnp

from jaxobs.model.events import LiveArraysCounted
from jaxobs.probe.live_arrays import Census, list_arrays
from jaxobs_plugins.memory import array_census

NUMBERS = (100, 1_000, 3_000, 5_000, 10_000, 100_000)
LIMIT_MILLISECONDS = 2.0
ROUNDS = 11
ROUND_SECONDS = 0.3


def milliseconds(nanoseconds: float) -> float:
    """Of nanoseconds."""
    return nanoseconds / 1e6


def whole_listing(tracebacks: bool) -> tuple[float, float]:
    """Milliseconds of listing all arrays, and of counting them, at the best of five."""
    listing, counting = [], []
    for _ in range(5):
        began = time.perf_counter_ns()
        census = Census(list_arrays(tracebacks=tracebacks))
        listed = time.perf_counter_ns()
        census.advance(10**12)
        counting.append(time.perf_counter_ns() - listed)
        listing.append(listed - began)
    return milliseconds(min(listing)), milliseconds(min(counting))


class Turns(threading.Thread):
    """Turns of the census as the sender's thread makes them, at once and without its pauses between two censuses."""

    def __init__(self, census: array_census.ArrayCensus) -> None:
        super().__init__()
        self.census = census
        self.ended = threading.Event()
        self.told: list[LiveArraysCounted] = []

    def run(self) -> None:
        time.sleep(ROUND_SECONDS / 6)
        self.census._next = 0.0  # noqa: SLF001  # the pause between two is not what is measured
        while not self.told and not self.ended.is_set():
            self.told += self.census.turn(self.ended.is_set)


def longest_step(census: array_census.ArrayCensus | None) -> tuple[float, LiveArraysCounted | None]:
    """Milliseconds of the longest of many short steps of Python, with one census among them or none."""
    turns = Turns(census) if census is not None else None
    if turns is not None:
        turns.start()
    longest = 0
    before = time.perf_counter_ns()
    end = before + int(ROUND_SECONDS * 1e9)
    while before < end:
        sum(range(500))
        now = time.perf_counter_ns()
        longest = max(longest, now - before)
        before = now
    if turns is None:
        return milliseconds(longest), None
    turns.ended.set()
    turns.join()
    return milliseconds(longest), turns.told[0] if turns.told else None


def measure(number: int) -> bool:
    """Print the line of one number of arrays; whether the limit was kept."""
    kept: Any = [jnp.float32(position) for position in range(number)]
    listed, counted = whole_listing(tracebacks=False)
    with_lines, _ = whole_listing(tracebacks=True)
    census = array_census.ArrayCensus()
    held, delays, told = [0.0], [], None
    for _ in range(ROUNDS):
        alone, _ = longest_step(None)
        longest, event = longest_step(census)
        told = event or told
        delays.append(longest - alone)
        if event is not None and event.arrays is not None:
            held.append(1e3 * event.lock_seconds)
    does = (
        "nothing ended"
        if told is None
        else told.reason or told.lines_reason or "counts all, with their lines"
    )
    lock, delay = statistics.median(held), statistics.median(delays)
    print(
        f"{number:8} {listed:10.2f} ms {with_lines:10.2f} ms {counted:10.2f} ms {lock:10.2f} ms {max(held):8.2f} ms "
        f"{delay:10.2f} ms  {does}",
        flush=True,
    )
    del kept
    return lock <= LIMIT_MILLISECONDS and delay <= LIMIT_MILLISECONDS


def main() -> int:
    """One line for each number of arrays."""
    numbers = [int(argument) for argument in sys.argv[1:]] or NUMBERS
    print(f"JAX {jax.__version__}, {jax.default_backend()}; limit {LIMIT_MILLISECONDS:g} ms")
    print(
        f"{'arrays':>8} {'list all':>13} {'with lines':>13} {'count':>13} {'lock held':>13} {'at most':>11} "
        f"{'delay':>13}  the probe"
    )
    kept = [measure(number) for number in numbers]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
