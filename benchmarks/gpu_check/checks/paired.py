"""Step time with jaxobs over step time without: one process alternates, as `benchmarks/costs/training_loop.py` says."""

from __future__ import annotations

import os
from collections.abc import Iterator

from benchmarks.costs.training_loop import INTERVAL_SECONDS, TARGETS, alternate, blocks_of, train_step
from benchmarks.gpu_check.place import Place
from benchmarks.paired import median
from benchmarks.truths import Figure, interval

MILLISECONDS = 1.0
GPU = 4096, 1
"""Width and layers of a step of about a millisecond on an H200: two products of 0.14 TFLOP in TensorFloat-32."""

CONTROL_SECONDS, SECONDS = 10.0, 35.0
SECONDS_OF_A_CPU = 2.0, 4.0

ALLOWED = 1.005
"""Half a per cent where a core is free: the first promise."""

ALLOWED_OF_A_CPU = 1.25
"""In a few seconds on a processor that others share only what is grossly wrong is seen."""


def paired(place: Place) -> Iterator[Figure]:
    """First plain beside plain, as the control; then observed beside plain, from the job's first second on."""
    step, weights, batch = train_step(*(GPU if place.on_gpu else TARGETS[MILLISECONDS]))
    blocks = blocks_of(step, batch, MILLISECONDS)
    control_seconds, seconds = (CONTROL_SECONDS, SECONDS) if place.on_gpu else SECONDS_OF_A_CPU
    weights = blocks.plain(weights)  # compiled
    weights, control = alternate(blocks.plain, blocks.plain, weights, control_seconds)
    os.environ["JAXOBS_INTERVAL"] = str(INTERVAL_SECONDS)
    observed = blocks.observed()
    weights = observed(weights)  # the agent is started
    _, found = alternate(observed, blocks.plain, weights, seconds)
    place.keep_json("ratios_of_two_blocks.json", {"control": control.ratios, "observed": found.ratios})
    yield Figure("step without jaxobs", found.plain_seconds / blocks.steps, unit="s")
    yield interval("control, plain over plain", median(control.ratios))
    ratio = median(found.ratios)
    yield interval("with jaxobs over without", ratio)
    allowed = ALLOWED if place.on_gpu else ALLOWED_OF_A_CPU
    yield Figure("lower end of its interval", ratio.low, between=(0.0, allowed))
    yield Figure("of a core, its threads in the job", found.threads)
