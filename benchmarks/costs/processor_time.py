"""Processor time of jaxobs in the job and in its agent, by steps a second: `make benchmark NAME=processor_time`.

Jobs train a small model at a fixed number of steps a second, and sleep in between: at each rate one with jaxobs and two
without, all at the same time. The figures are means of readings, in percent of one core.
"""

from __future__ import annotations

import contextlib
import time

import psutil

from benchmarks.costs.processes import Asked, family, own_and_beside
from benchmarks.paired import mean
from benchmarks.truths import Rows, interval

RATES = (1, 10, 100, 1000)
SETTLE_SECONDS = 15.0
WINDOWS, WINDOW_SECONDS = 12, 5.0


def measure() -> Rows:
    """All rates at once."""
    with contextlib.ExitStack() as open_jobs:
        jobs = {
            (rate, how): open_jobs.enter_context(
                Asked("benchmarks.costs.job", how.removesuffix(" again"), "86400", str(rate))
            )
            for rate in RATES
            for how in ("plain", "plain again", "jaxobs")
        }
        for job in jobs.values():
            job.hear()
        time.sleep(SETTLE_SECONDS)
        families = {key: family(job.process.pid) for key, job in jobs.items()}
        readings: dict[tuple[int, str], list[tuple[float, float]]] = {key: [] for key in jobs}
        for one in families.values():
            own_and_beside(one, psutil.Process.cpu_percent)  # from now on
        for _ in range(WINDOWS):
            time.sleep(WINDOW_SECONDS)
            for key, one in families.items():
                readings[key].append(own_and_beside(one, psutil.Process.cpu_percent))
    own = {key: [reading[0] for reading in found] for key, found in readings.items()}
    beside = {key: [reading[1] for reading in found] for key, found in readings.items()}

    def more(rate: int, how: str) -> list[float]:
        return [one - other for one, other in zip(own[rate, how], own[rate, "plain"], strict=True)]

    for rate in RATES:
        yield (
            f"{rate} steps a second",
            [
                interval("the job without", mean(own[rate, "plain"]), "%"),
                interval("more with jaxobs", mean(more(rate, "jaxobs")), "%"),
                interval("the agent", mean(beside[rate, "jaxobs"]), "%"),
                interval("control", mean(more(rate, "plain again")), "%"),
            ],
        )
