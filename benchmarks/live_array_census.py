"""What counting live arrays costs the job: `python -m benchmarks.live_array_census [arrays …]`.

For each number of arrays, made one by one: what listing them all takes (that holds the interpreter lock and cannot be
interrupted); whether the memory probe counts them while steps run, or only while the job stands still; how long that held
the lock; the processor time of a census; and whether what it tells is what there is.

Exit status 1: a census told something else than the truth, or held the lock for more than 2 ms while steps ran.
"""

import sys
import time
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp

from jaxobs.jax_compat.arrays import list_arrays
from jaxobs.model.events import LiveArraysCounted
from jaxobs_plugins.probes.memory import ArrayCensus

NUMBERS = (1_000, 5_000, 20_000, 100_000)
LIMIT_MILLISECONDS = 2.0


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


def whole_listing() -> float:
    """Milliseconds of listing all arrays, at the best of five."""
    took = []
    for _ in range(5):
        began = time.perf_counter_ns()
        listing = list_arrays(tracebacks=False)
        took.append(time.perf_counter_ns() - began)
        del listing
    return min(took) / 1e6


def one_census(stands_still: bool) -> tuple[LiveArraysCounted, float]:
    """What the probe tells, and the processor time in milliseconds that it took."""
    census = ArrayCensus(lambda: stands_still)
    began = time.thread_time()
    while True:
        for event in census.turn(lambda: False):
            return event, 1e3 * (time.thread_time() - began)


def measure(number: int) -> bool:
    """Print the line of one number of arrays; whether everything was kept."""
    arrays = make(number)
    there = truth()
    event, spent = one_census(stands_still=False)
    when = "always"
    if event.arrays is None:
        event, spent = one_census(stands_still=True)
        when = "standing still"
    told = {(group[0], group[1]): group[3] for group in event.groups}
    right = event.arrays == sum(there.values()) and all(there[kind] == count for kind, count in told.items())
    lock = 1e3 * event.lock_seconds
    print(
        f"{len(arrays):8} {whole_listing():10.2f} ms {when:>16} {lock:8.2f} ms {spent:8.1f} ms  "
        f"{'the truth' if right else 'WRONG: ' + event.reason}",
        flush=True,
    )
    return right and (lock <= LIMIT_MILLISECONDS or when != "always")


def main() -> int:
    """One line for each number of arrays."""
    numbers = [int(argument) for argument in sys.argv[1:]] or NUMBERS
    print(f"JAX {jax.__version__}, {jax.default_backend()}; limit {LIMIT_MILLISECONDS:g} ms while steps run")
    print(f"{'arrays':>8} {'list all':>13} {'counted':>16} {'lock held':>11} {'a census':>11}")
    well = [measure(number) for number in numbers]
    return 0 if all(well) else 1


if __name__ == "__main__":
    sys.exit(main())
