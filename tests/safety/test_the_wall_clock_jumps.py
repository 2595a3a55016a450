"""A wall clock that jumps an hour in the middle of a job moves no duration and no deadline."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

JOB = """
import json
import jax

clocks, ahead = (time.time, time.time_ns), 0.0
time.time = lambda: clocks[0]() + ahead
time.time_ns = lambda: clocks[1]() + int(ahead * 1e9)
import jaxobs  # which keeps the clocks that it finds now
obs = jaxobs.instrument()
step = obs.watch(jax.jit(lambda x: x + 1))
x = step(jax.numpy.ones(3))
for number in obs.steps(range(20)):
    if number == 10:
        ahead = {jump}
    if number == 15:
        step(jax.numpy.ones(4))  # compiles
    x = step(x)
    time.sleep(0.02)
with obs.phase("checkpoint"):
    time.sleep(0.1)
time.sleep(1.5)  # until the end of the last step is told
began = time.monotonic()
document = obs.snapshot(60).to_dict()
obs.shutdown(timeout=5)
waited = time.monotonic() - began
loop = document["loops"]["train"]
print(json.dumps([loop["steps"], loop["wall_seconds"], document["process"]["run_seconds"], waited]))
"""


@pytest.mark.parametrize("jump", [-3600.0, 3600.0])
def test_seconds_are_as_they_were(run: Callable[..., Any], jump: float) -> None:
    outcome = run(JOB.format(jump=jump), observed=False)
    assert (outcome.status, outcome.stderr) == (0, "")
    steps, seconds, run_seconds, waited = json.loads(outcome.stdout)
    assert steps == 20
    assert 0.4 <= seconds < 60
    assert 0.1 <= sum(run_seconds.values()) < 120
    assert all(0 <= amount < 120 for amount in run_seconds.values()), run_seconds
    assert waited < 12
