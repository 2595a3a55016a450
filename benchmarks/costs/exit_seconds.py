"""How much later a job ends with jaxobs than without: `make benchmark NAME=exit_seconds`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial

from benchmarks.costs.memory_and_exit import endpoints
from benchmarks.costs.processes import Asked
from benchmarks.costs.sections import Cell, Section, Table, middle, more
from benchmarks.paired import take_turns

ROUNDS = 20
PACE = 100.0
CASES = {
    "`instrument()`": ("jaxobs", 1.0, ""),
    "`jaxobs run`": ("launched", 1.0, ""),
    "OTLP endpoint refuses": ("jaxobs", 1.0, "refuses"),
    "OTLP endpoint silent": ("jaxobs", 1.0, "silent"),
    "five seconds of steps": ("jaxobs", 5.0, ""),
}
"""How the job is observed, for how many seconds it trains, and what its endpoint does."""

_TEXT = f"""From the job's last line to the end of its process and of its output, in turn with the same job without
jaxobs, so that what else the machine does falls on both: {ROUNDS} rounds, {PACE:.0f} steps a second."""


def seconds_to_end(how: str, seconds: float, environment: Mapping[str, str]) -> float:
    """Of one job."""
    tool = "jaxobs" if how == "jaxobs" else "plain"
    command = ["benchmarks.costs.job", tool, str(seconds), str(PACE)]
    if how == "launched":
        command = ["jaxobs", "run", "--", "-m", *command]
    with Asked(*command, **environment) as job:
        while job.hear() != "ready":
            pass
        last_line = job.ask()
        assert job.process.stdout is not None
        job.process.stdout.read()
        if status := job.process.wait():
            raise SystemExit(f"{' '.join(command)} ended with status {status}")
        return float(time.monotonic() - last_line)


def measure() -> Section:
    """A row a case."""
    rows: list[list[Cell]] = []
    with endpoints() as settings:
        for name, (how, seconds, endpoint) in CASES.items():
            turns = {
                "plain": partial(seconds_to_end, "plain", seconds, {}),
                "observed": partial(seconds_to_end, how, seconds, settings[endpoint]),
            }
            found = take_turns(turns, ROUNDS)
            longest = max(one - other for one, other in zip(found["observed"], found["plain"], strict=True))
            later = more(found["observed"], found["plain"])
            rows.append([name, middle(found["plain"]), later, f"{longest:.2f} s"])
    return Section("Exit", [Table("", _TEXT, ("job", "without", "later with jaxobs", "at most"), rows)])
