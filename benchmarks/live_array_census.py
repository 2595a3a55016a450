"""What counting live arrays costs the job: `python benchmarks/live_array_census.py [arrays …]`.

For each number of arrays, made one by one: what listing them all takes (that holds the interpreter lock and cannot be
interrupted); whether the memory probe counts them, and how: `listed` in that one call, or `followed` from when they were
made; whether what it tells is what there is; the longest that it held the interpreter lock (processor time of one slice,
listing or look); and its processor time: of looks at new arrays on the job's thread, of a census on its own, and the
share of a processor that censuses take with the pauses between them.

Then, with the most arrays, how often a step of a loop of 1 ms Python steps is late by more than 2 ms, with censuses one
after the other and without any, in turns; and the resident memory that following takes, in processes of their own.

Exit status 1: a census told something else than the truth, held the lock for more than 2 ms, took more than its share,
or steps were late more often with it (both 95 % intervals apart). Others' programs delay steps as well.
"""

import math
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp

from jaxobs.model.events import LiveArraysCounted
from jaxobs.probe.followed_arrays import FollowedArrays
from jaxobs.probe.live_arrays import Census, list_arrays
from jaxobs_plugins.memory import array_census

NUMBERS = (1_000, 5_000, 20_000, 100_000)
LIMIT_MILLISECONDS = 2.0
STEP_SECONDS = 0.001
BLOCKS = 12
BLOCK_SECONDS = 2.5
LONGEST_CENSUS_SECONDS = 60.0


def make(number: int) -> list[Any]:
    """Small arrays of a few shapes and types, each by itself."""
    return [
        jnp.full((position % 3 + 1,), 1.0, jnp.bfloat16 if position % 5 == 0 else jnp.float32)
        for position in range(number)
    ]


def truth() -> Counter[tuple[str, str]]:
    """How many arrays there are, by shape and type, as JAX lists them."""
    listing = list_arrays(tracebacks=False)
    return Counter((str(aval.shape), str(aval.dtype)) for aval in listing.avals)


def follow() -> FollowedArrays:
    """As the probe does when it starts."""
    jnp.zeros(()).block_until_ready()
    followed = FollowedArrays()
    followed.start(lambda hook: hook)
    return followed


def whole_listing() -> float:
    """Milliseconds of listing all arrays, at the best of five."""
    took = []
    for _ in range(5):
        began = time.perf_counter_ns()
        listing = list_arrays(tracebacks=False)
        took.append(time.perf_counter_ns() - began)
        del listing
    return min(took) / 1e6


class Turns(threading.Thread):
    """Turns of the census as the sender's thread makes them, without the pauses between two censuses."""

    def __init__(self, census: array_census.ArrayCensus, most: int) -> None:
        super().__init__()
        self.census, self.most = census, most
        self.ended = threading.Event()
        self.told: list[LiveArraysCounted] = []
        self.spent: list[int] = []

    def run(self) -> None:
        while len(self.told) < self.most and not self.ended.is_set():
            self.census._next = 0.0  # noqa: SLF001  # the pause between two is not what is measured
            for event in list(self.census.turn(self.ended.is_set)):
                self.told.append(event)
                self.spent.append(self.census._spent)  # noqa: SLF001


def one_census(followed: FollowedArrays) -> tuple[LiveArraysCounted | None, float, str]:
    """A census while nothing else runs, its processor time in milliseconds, and how the arrays were found."""
    turns = Turns(array_census.ArrayCensus(followed), 1)
    turns.start()
    turns.join(LONGEST_CENSUS_SECONDS)
    turns.ended.set()
    turns.join()
    how = "followed" if turns.census._counts_followed else "listed"  # noqa: SLF001
    return (turns.told[0], turns.spent[0] / 1e6, how) if turns.told else (None, math.nan, how)


def measure(number: int, followed: FollowedArrays) -> tuple[bool, list[Any]]:
    """Print the line of one number of arrays; whether everything was kept, and the arrays."""
    looks_before = followed.look_nanoseconds
    arrays = make(number)
    looks = (followed.look_nanoseconds - looks_before) / 1e6
    there = truth()
    event, spent, how = one_census(followed)
    told = {} if event is None else {(group[0], group[1]): group[3] for group in event.groups}
    right = (
        event is not None
        and event.arrays == sum(there.values())
        and all(there[kind] == count for kind, count in told.items())
    )
    lock = max(1e3 * (event.lock_seconds if event else 0.0), followed.longest_look_nanoseconds / 1e6)
    pause = max(array_census.INTERVAL_SECONDS, spent / 1e3 / array_census.SHARE)
    share = spent / 1e3 / pause
    what = "the truth" if right else "NOT COUNTED: " + (event.reason if event else "nothing ended")
    print(
        f"{number:8} {whole_listing():10.2f} ms {how:>9} {lock:8.2f} ms {looks:8.1f} ms {spent:8.1f} ms "
        f"{100 * share:7.3f} %  {what}",
        flush=True,
    )
    return right and lock <= LIMIT_MILLISECONDS and share <= 1.001 * array_census.SHARE, arrays


def late_steps(turns_of: int) -> list[float]:
    """By how many milliseconds each step of a block was longer than usual. A step adds up so many numbers."""
    took = []
    before = time.perf_counter_ns()
    end = before + int(BLOCK_SECONDS * 1e9)
    while before < end:
        sum(range(turns_of))
        now = time.perf_counter_ns()
        took.append((now - before) / 1e6)
        before = now
    usual = statistics.median(took)
    return [step - usual for step in took]


def rate(late: int, seconds: float) -> tuple[float, float, float]:
    """Late steps a second, and the 95 % interval of a Poisson count (square-root approximation)."""
    low, high = (math.sqrt(late) - 0.98) ** 2 if late > 1 else 0.0, (math.sqrt(late + 1) + 0.98) ** 2
    return late / seconds, low / seconds, high / seconds


def steps_beside(followed: FollowedArrays) -> bool:
    """Print how often steps are late with and without censuses, in turns."""
    turns_of = 1_000
    began = time.perf_counter()
    for _ in range(200):
        sum(range(turns_of))
    turns_of = int(turns_of * STEP_SECONDS / ((time.perf_counter() - began) / 200))
    census = array_census.ArrayCensus(followed)
    late: dict[bool, list[float]] = {False: [], True: []}
    steps = {False: 0, True: 0}
    censuses, held = 0, 0.0
    for block in range(2 * BLOCKS):
        beside = block % 4 in {1, 2}
        turns = Turns(census, sys.maxsize) if beside else None
        if turns is not None:
            turns.start()
        lateness = late_steps(turns_of)
        if turns is not None:
            turns.ended.set()
            turns.join()
            censuses += sum(event.arrays is not None for event in turns.told)
            held = max([held, *(1e3 * event.lock_seconds for event in turns.told)])
        late[beside] += [step for step in lateness if step > LIMIT_MILLISECONDS]
        steps[beside] += len(lateness)
    rates = {}
    for beside in (False, True):
        rates[beside] = rate(len(late[beside]), BLOCKS * BLOCK_SECONDS)
        middle, low, high = rates[beside]
        print(
            f"{'with censuses' if beside else 'without':>14}: {steps[beside]} steps of 1 ms, late by more than 2 ms: "
            f"{middle:.2f} a second ({low:.2f} to {high:.2f}), the latest {max(late[beside], default=0.0):.1f} ms"
        )
    print(f"{censuses} censuses ended meanwhile; they held the interpreter lock for {held:.2f} ms at most")
    return rates[True][1] <= rates[False][2] and held <= LIMIT_MILLISECONDS and censuses > 0


def resident(number: int, followed: bool) -> int:
    """KiB of a process of its own that makes as many arrays, in which they are followed or not."""
    done = subprocess.run(
        [sys.executable, __file__, "--resident", str(number), str(int(followed))],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    return int(done.stdout)


def resident_here(number: int, followed: bool) -> None:
    """What that process does; it prints KiB."""
    following = follow() if followed else SimpleNamespace(following=False)
    arrays = make(number)
    if following.following is not followed:
        sys.exit("the arrays are not followed")
    if isinstance(following, FollowedArrays):
        census = Census(following.listings())
        census.advance(10**12)
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    print(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")))
    del arrays


def main() -> int:
    """One line for each number of arrays, then the loop and the memory."""
    if sys.argv[1:2] == ["--resident"]:
        resident_here(int(sys.argv[2]), bool(int(sys.argv[3])))
        return 0
    numbers = [int(argument) for argument in sys.argv[1:]] or NUMBERS
    print(f"JAX {jax.__version__}, {jax.default_backend()}; limit {LIMIT_MILLISECONDS:g} ms")
    print(
        f"{'arrays':>8} {'list all':>13} {'by':>9} {'lock held':>11} {'looks':>11} {'a census':>11} {'share':>9}"
    )
    followed = follow()
    kept = []
    arrays: list[Any] = []
    for number in numbers:
        arrays.clear()
        followed.stop()
        followed = follow()
        well, arrays = measure(number, followed)
        kept.append(well)
    kept.append(steps_beside(followed))
    if Path("/proc/self/status").exists():
        plain, with_it = (
            statistics.median(resident(max(numbers), followed) for _ in range(3))
            for followed in (False, True)
        )
        print(
            f"resident memory with {max(numbers)} arrays: {(with_it - plain) / 1024:.1f} MB more where they are followed"
        )
    followed.stop()
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
