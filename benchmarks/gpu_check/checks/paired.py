"""Step time with jaxobs over step time without: one process alternates, as `benchmarks/overhead/alternating.py` says."""

from __future__ import annotations

from typing import Any

from benchmarks.gpu_check.figures import Findings
from benchmarks.overhead.alternating import BLOCK_SECONDS, alternate, observed_block
from benchmarks.overhead.model import LOSS_READ_EVERY, TARGETS, train_step
from benchmarks.paired import Interval, paired_ratio

MILLISECONDS = 1.0
GPU = 4096, 1
"""Width and layers of a step of about a millisecond on an H200: two products of 0.14 TFLOP in TensorFloat-32."""

CONTROL_SECONDS, SECONDS = 10.0, 35.0
SECONDS_OF_A_CPU = 2.0, 4.0

ALLOWED = 1.005
"""Half a per cent where a core is free: the first promise."""

ALLOWED_OF_A_CPU = 1.25
"""In a few seconds on a processor that others share only what is grossly wrong is seen."""


def check(told: Findings) -> None:
    """First plain beside plain, as the control; then observed beside plain, from the job's first second on."""
    step, weights, batch = train_step(*(GPU if told.on_gpu else TARGETS[MILLISECONDS]))
    steps = LOSS_READ_EVERY * max(1, round(BLOCK_SECONDS * 1e3 / MILLISECONDS / LOSS_READ_EVERY))

    def plain(weights: Any) -> Any:
        for done in range(1, steps + 1):
            weights, loss = step(weights, batch)
            if done % LOSS_READ_EVERY == 0:
                float(loss)
        return weights

    control_seconds, seconds = (CONTROL_SECONDS, SECONDS) if told.on_gpu else SECONDS_OF_A_CPU
    weights = plain(weights)  # compiled
    weights, control = alternate(plain, plain, weights, control_seconds)
    observed = observed_block(step, batch, steps, LOSS_READ_EVERY)
    weights = observed(weights)  # the agent is started
    _, found = alternate(observed, plain, weights, seconds)
    told.keep_json("nanoseconds_of_two_blocks.json", {"control": control, "observed": found})
    pairs = len(found["plain"])
    told.figure("step without jaxobs", sum(found["plain"]) / pairs / 2 / steps / 1e9, unit="s")
    of_control, ratio = (paired_ratio(each["observed"], each["plain"]) for each in (control, found))
    _say(told, "control, plain over plain", of_control)
    _say(told, "with jaxobs over without", ratio)
    allowed = ALLOWED if told.on_gpu else ALLOWED_OF_A_CPU
    told.figure(
        "within what is promised",
        ratio.low <= allowed,
        truth=True,
        source=f"{allowed}, lower end of the interval",
    )
    told.figure("of a core, its threads in the job", found["threads"], source="in plain blocks")


def _say(told: Findings, name: str, ratio: Interval) -> None:
    told.figure(name, ratio.middle, source=f"95 % interval {ratio.low:.4f} to {ratio.high:.4f}")
