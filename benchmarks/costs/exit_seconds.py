"""How much later a short job ends with jaxobs than without: `make benchmark NAME=exit_seconds`."""

from __future__ import annotations

from functools import partial

from benchmarks.costs.memory_and_exit import PACE, Job, endpoints, run
from benchmarks.costs.sections import Section, middle, more, table
from benchmarks.paired import take_turns

ROUNDS = 20
MAX_SECONDS = 1.0
"""The most by which a job may end later."""
JOBS = (
    Job("`instrument()`", "jaxobs", seconds=1.0),
    Job("`jaxobs run`", "plain", launched=True, seconds=1.0),
    Job("OTLP endpoint refuses", "jaxobs", "refuses", seconds=1.0),
    Job("OTLP endpoint silent", "jaxobs", "silent", seconds=1.0),
    Job("five seconds of steps", "jaxobs"),
)

_TEXT = f"""From the job's last line to the end of its process and of its output, in turn with the same job without
jaxobs, so that what else the machine does falls on both: {ROUNDS} rounds, {PACE:.0f} steps a second for one second."""


def measure() -> Section:
    """A row a case."""
    rows, held = [], True
    with endpoints() as settings:
        for job in JOBS:
            plain = Job("nothing", "plain", seconds=job.seconds)
            turns = {each: partial(run, each, settings[each.endpoint]) for each in (plain, job)}
            without, found = ([ended for *_, ended in told] for told in take_turns(turns, ROUNDS).values())
            longest = max(one - other for one, other in zip(found, without, strict=True))
            held = held and longest <= MAX_SECONDS
            rows.append([job.title, middle(without), more(found, without), f"{longest:.2f} s"])
    shown = table("", _TEXT, ("job", "without", "later with jaxobs", "at most"), rows)
    return Section("Exit", [shown], {f"no job ends more than {MAX_SECONDS:g} s later": held})
