"""How much later a short job ends with jaxobs than without: `make benchmark NAME=exit_seconds`.

A second of steps; in turn with the same job without jaxobs, so that what else the machine does falls on both.
"""

from __future__ import annotations

from benchmarks.costs.memory_and_exit import OURS, exits, measured
from benchmarks.truths import Rows

ROUNDS = 20
MAX_SECONDS = 1.0
"""The most by which a job may end later."""


def measure() -> Rows:
    """A row a job; the first is the plain one."""
    found = measured([job._replace(seconds=1.0) for job in OURS], ROUNDS)
    plain, *_ = [ended for *_, ended in found.values()]
    for job, (*_, ended) in found.items():
        yield job.title, exits(ended, plain, MAX_SECONDS)
