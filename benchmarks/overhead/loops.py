"""Step time with jaxobs over step time without, of one loop: in its first minute and after it."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from typing import Any, NamedTuple

from benchmarks.paired import Interval, paired_mean_ratio, paired_ratio

CORES = ("every", "one-free")

INTERVAL_SECONDS = 2
"""Twice the default: the agent is suspended half of the time, and so has a turn for each second in which it runs, as by
default. With one a second all that it does at its turns counted twice."""


class Phase(NamedTuple):
    """Ratios to the plain loop. `milliseconds` was aimed at, `step_ms` is what a step of the plain loop took.

    The means hold what a median leaves out: profiler windows, and turns of the agent, which fall into few groups of
    blocks. `threads` is the share of a core that the threads of jaxobs in the job take while nothing is marked.
    """

    milliseconds: float
    cores: str
    name: str
    step_ms: float
    jaxobs: Interval
    control: Interval
    jaxobs_mean: Interval
    control_mean: Interval
    threads: float


def loop(milliseconds: float, cores: str, seconds: float) -> list[Phase]:
    """The first minute and so many seconds after it, of a process with jaxobs and of one without as the control."""
    control, observed = (_alternated(milliseconds, cores, kind, seconds) for kind in ("plain", "jaxobs"))
    return [
        Phase(
            milliseconds, cores, name, statistics.median(observed[key]["plain"]) / 2 / observed["steps"] / 1e6,
            _ratio(observed[key]), _ratio(control[key]), _mean_ratio(observed[key]), _mean_ratio(control[key]),
            observed[key]["threads"],
        )
        for key, name in (("first", "first minute"), ("after", "after it"))
    ]  # fmt: skip


def _ratio(found: dict[str, Any]) -> Interval:
    return paired_ratio(found["observed"], found["plain"])


def _mean_ratio(found: dict[str, Any]) -> Interval:
    return paired_mean_ratio(found["observed"], found["plain"])


def _alternated(milliseconds: float, cores: str, kind: str, seconds: float) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.overhead.alternating", str(milliseconds), kind, str(seconds)]
    variables = {
        **os.environ, "JAX_PLATFORMS": "cpu", "OTEL_EXPORTER_PROMETHEUS_PORT": "0",
        "JAXOBS_INTERVAL": str(INTERVAL_SECONDS), **_environment(cores),
    }  # fmt: skip
    ran = subprocess.run(command, env=variables, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(ran.stdout))


def _environment(cores: str) -> dict[str, str]:
    if cores == "every":
        return {}
    count = max(1, (os.cpu_count() or 1) - 1)
    return {"NPROC": str(count), "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false" if count == 1 else ""}
