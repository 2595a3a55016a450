"""What counting live arrays costs the job: `make benchmark NAME=live_array_census`."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from benchmarks.costs.sections import Section, middle, table
from benchmarks.paired import seconds_of
from jaxobs.jax_compat.arrays import list_arrays
from jaxobs.model.events import LiveArraysCounted
from jaxobs_plugins.probes.memory import ArrayCensus

NUMBERS = (1_000, 2_000, 3_500, 20_000)
LIMIT = 0.002
ROUNDS = 5

_TEXT = """Of so many arrays, made one by one: what listing them all takes (that holds the interpreter lock and cannot
be interrupted); whether the memory probe lists so many; how long that held the lock; the processor time of a census; and
whether what it tells is what there is."""


def make(number: int) -> list[Any]:
    """Small arrays of a few shapes and types, each by itself."""
    import jax.numpy as jnp

    return [
        jnp.full((position % 3 + 1,), 1.0, jnp.bfloat16 if position % 5 == 0 else jnp.float32)
        for position in range(number)
    ]


def truth() -> Counter[tuple[str, str]]:
    """How many arrays there are, by shape and type, as JAX lists them."""
    return Counter((str(aval.shape), str(aval.dtype)) for aval in list_arrays(tracebacks=False).avals)


def one_census() -> tuple[LiveArraysCounted, float]:
    """What the probe tells, and the processor time that it took."""
    began = time.thread_time()
    event = ArrayCensus().turn()
    assert event is not None
    return event, time.thread_time() - began


def measure() -> Section:
    """A row for each number of arrays."""
    rows = []
    every_right = lock_is_short = True
    for number in NUMBERS:
        arrays = make(number)  # first of all, which lets go of those of the row before
        there = truth()
        event, spent = one_census()
        listing = middle([seconds_of(lambda: list_arrays(tracebacks=False)) for _ in range(ROUNDS)])
        if event.arrays is None:
            rows.append([f"{len(arrays)}", listing, "no", "", "", ""])
            continue
        told = {(group[0], group[1]): group[3] for group in event.groups}
        right = event.arrays == there.total() and told.items() <= there.items()
        rows.append(
            [f"{len(arrays)}", listing, "yes", middle([event.lock_seconds]), middle([spent]), str(right)]
        )
        every_right &= right
        lock_is_short &= event.lock_seconds <= LIMIT
    columns = ("arrays", "listing them", "counted", "lock held", "a census", "right")
    demands = {"what is told is the truth": every_right, "the lock is held for 2 ms at most": lock_is_short}
    return Section("A census of live arrays", [table("", _TEXT, columns, rows)], demands)
