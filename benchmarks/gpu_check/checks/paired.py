"""Step time with jaxobs over step time without: two processes with the same loop take turns on the device."""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path

from benchmarks.gpu_check.figures import Findings
from benchmarks.overhead.turns import Job, ended, go_on, rounds_of_turns, start
from benchmarks.paired import changed_ratio

MILLISECONDS = 1.0
BEFORE, AFTER = 10, 20
"""Rounds before and after one of the two begins to be observed: what they differed by before is taken out."""

TURN = 0.6
TURNS_OF_A_CPU = 3, 5

ALLOWED = 1.005
"""Half a per cent where a core is free: the first promise."""


def check(told: Findings) -> None:
    """Both are there all the time; the one whose turn it is not is suspended."""
    before, after = (BEFORE, AFTER) if told.on_gpu else TURNS_OF_A_CPU
    order = random.Random(0)
    jobs: list[Job] = []
    variables = {
        "JAX_PLATFORMS": os.environ.get("JAX_PLATFORMS", ""),
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # both share the device
    }
    with tempfile.TemporaryDirectory() as folder, ended(jobs):
        for kind in ("plain", "jaxobs"):
            jobs.append(start(kind, MILLISECONDS, Path(folder) / kind, variables))
        earlier = list(rounds_of_turns(jobs, before, TURN, order))
        for job in jobs:
            go_on(job)
        later = list(rounds_of_turns(jobs, after, TURN, order))
    told.keep_json("seconds_a_step.json", {"before": earlier, "after": later})
    plain, observed = ([row[number] for row in later] for number in range(2))
    first_plain, first_observed = ([row[number] for row in earlier] for number in range(2))
    ratio = changed_ratio(([observed], [plain]), ([first_observed], [first_plain]))
    told.figure("step without jaxobs", sum(plain) / len(plain), unit="s")
    told.figure("step time with jaxobs over without", ratio.middle, source=f"95 % interval {ratio.low:.4f} to {ratio.high:.4f}")
    told.figure("within the promise", ratio.low <= ALLOWED, truth=True, source=f"{ALLOWED}, lower end of the interval")
