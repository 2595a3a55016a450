"""How much later a short job ends with jaxobs than without: `make benchmark NAME=exit_seconds`.

A second of steps, or five; in turn with the same job without jaxobs, so that what else the machine does falls on both.
"""

from __future__ import annotations

from benchmarks.costs.memory_and_exit import Job, exits, later, measured
from benchmarks.costs.sections import Section
from benchmarks.truths import Figure

ROUNDS = 20
MAX_SECONDS = 1.0
"""The most by which a job may end later."""
JOBS = (
    Job("nothing", "plain", seconds=1.0),
    Job("`instrument()`", "jaxobs", seconds=1.0),
    Job("`jaxobs run`", "plain", launched=True, seconds=1.0),
    Job("OTLP endpoint refuses", "jaxobs", "refuses", seconds=1.0),
    Job("OTLP endpoint silent", "jaxobs", "silent", seconds=1.0),
    Job("five seconds of steps", "jaxobs"),
)


def measure() -> Section:
    """A row a job."""
    found = measured(JOBS, ROUNDS)
    plain, *others = [ended for *_, ended in found.values()]
    latest = max(later(ended, plain) for ended in others)
    demand = Figure("later than without, at most", latest, between=(0.0, MAX_SECONDS), unit="s")
    return Section("Exit", [exits(found)], [demand])
