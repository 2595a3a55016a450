"""A step calls three jitted functions in turn, each of which needs the one before: a long, a small and a middling one.

The host waits at the end of each step; with the argument `ahead` at the end of each twentieth. What each function takes
is told by its own clock, before and after: twenty calls that need each other, and one wait for all of them. Where the
host runs ahead the functions fill the steps, whose own time then gives the machine's pace between these measurements.
"""

import json
import statistics
import sys
import time
from typing import Any

import jax
import jax.numpy as jnp

import jaxobs

AHEAD = 20 if "ahead" in sys.argv[1:] else 1
WIDTHS = {"long": 1024, "small": 320, "middle": 640}
SECONDS, ALONE = 14.0, 3.0


def products(name: str, width: int) -> Any:
    """A jitted function of one product, which needs a number that another one made."""

    def function(x: Any, before: Any) -> Any:
        y = x @ x * 1e-3 + before
        return y, y[0, 0] * 1e-9

    function.__name__ = name
    return jax.jit(function), jax.random.normal(jax.random.key(0), (width, width))


def in_a_row() -> dict[str, float]:
    """Seconds of a call of each function, of twenty in a row."""
    times: dict[str, list[float]] = {name: [] for name in made}
    number = jnp.zeros(())
    end = time.perf_counter() + ALONE
    while time.perf_counter() < end:
        for name, (function, x) in made.items():
            begun = time.perf_counter()
            for _ in range(20):
                _, number = function(x, number)
            number.block_until_ready()
            times[name].append((time.perf_counter() - begun) / 20)
    return {name: statistics.median(found) for name, found in times.items()}


made = {name: products(name, width) for name, width in WIDTHS.items()}
for function, x in made.values():
    jax.block_until_ready(function(x, jnp.zeros(())))
before = in_a_row()
obs = jaxobs.instrument()
watched = []
for function, x in made.values():
    function.clear_cache()  # its executable is seen when it is compiled
    watched.append((obs.watch(function), x))
    jax.block_until_ready(watched[-1][0](x, jnp.zeros(())))
number = jnp.zeros(())
began, steps = time.perf_counter(), 0
for _ in obs.steps(iter(lambda: time.perf_counter() - began < SECONDS, False)):
    for function, x in watched:
        _, number = function(x, number)
    steps += 1
    if steps % AHEAD == 0:
        number.block_until_ready()
number.block_until_ready()
seconds = (time.perf_counter() - began) / steps
time.sleep(2)  # what was timed last is told about once a second
after = in_a_row()
runs = {name: (before[name] + after[name]) / 2 for name in made}
pace = seconds / sum(runs.values()) if AHEAD > 1 else 1.0
runs = {name: pace * run for name, run in runs.items()}
print(json.dumps({"truth": {"step_seconds": seconds, "runs": runs, "before": before, "after": after}}))
