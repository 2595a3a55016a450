"""How long `obs.snapshot()` takes: `make benchmark NAME=snapshot_time`."""

from __future__ import annotations

import sys
import time
from typing import Any

from benchmarks.costs.processes import Asked, answer
from benchmarks.costs.sections import Cell, Section, Table, middle, ratio

FUNCTIONS = (2, 50)
CALLS = 40
"""Pairs of calls."""

_TEXT = f"""`obs.snapshot()` in a job at about 100 steps a second: it asks the agent, which folds what has come since
and answers with the whole document. {CALLS} pairs of calls, 50 ms apart; the control sets the second calls of the
pairs over the first."""


def in_a_job(functions: int) -> list[float]:
    """Seconds of each call. Runs in a process of its own."""
    import jax
    import jax.numpy as jnp

    import jaxobs

    observer = jaxobs.instrument()

    def times(factor: int) -> Any:
        return observer.watch(jax.jit(lambda x: jnp.tanh(x * factor)))

    jitted = [times(factor) for factor in range(functions)]
    x, calls = jnp.ones(100), []
    for number in observer.steps(range(20 * functions + 10 * CALLS)):
        jitted[number % functions](x)
        time.sleep(0.01)
        if number >= 20 * functions and number % 5 == 0:
            began = time.perf_counter()
            observer.snapshot(10.0)
            calls.append(time.perf_counter() - began)
    return calls


def measure() -> Section:
    """A job with few functions, and one with many."""
    rows: list[list[Cell]] = []
    for functions in FUNCTIONS:
        with Asked(__name__, str(functions)) as process:
            calls = process.hear()
        rows.append([str(functions), middle(calls), ratio(calls[1::2], calls[::2])])
    columns = ("watched functions", "`obs.snapshot()`", "control")
    return Section("A snapshot in the job", [Table("", _TEXT, columns, rows)])


if __name__ == "__main__":
    answer(in_a_job(int(sys.argv[1])))
