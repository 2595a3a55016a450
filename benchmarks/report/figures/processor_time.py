"""Processor time of jaxobs in the job and in its agent, by steps a second: `make benchmark NAME=processor_time`."""

from __future__ import annotations

import contextlib
import time

from benchmarks.paired import mean
from benchmarks.report.processes import Family, family, processor_seconds, total
from benchmarks.report.results import Cell, Measured, Section, Table
from benchmarks.report.turns import Asked

RATES = (1, 10, 100, 1000)
SETTLE_SECONDS = 15.0
WINDOWS, WINDOW_SECONDS = 12, 5.0
OF_A_CORE = "%"

_TEXT = f"""Of jobs that train a small model at a fixed number of steps a second and sleep in between. At each rate
one job has jaxobs (steps marked, the function watched, pages served, default settings) and two have nothing. All run
at the same time; after {SETTLE_SECONDS:.0f} s each one's processor time is read from the kernel every
{WINDOW_SECONDS:.0f} s, {WINDOWS} times. The figures are means, so that rare work counts, in percent of one core: what
the job takes without jaxobs, what it takes more with it in all its threads, what the second job without takes more
than the first (the control), and what the agent takes."""

Windows = dict[str, list[float]]


def measure() -> Section:
    """All rates at once."""
    with contextlib.ExitStack() as open_jobs:
        jobs = {
            (rate, how): open_jobs.enter_context(
                Asked("benchmarks.report.job", how.removesuffix(" again"), "86400", str(rate))
            )
            for rate in RATES
            for how in ("plain", "plain again", "jaxobs")
        }
        for job in jobs.values():
            job.hear()
        time.sleep(SETTLE_SECONDS)
        families = {key: family(job.process.pid) for key, job in jobs.items()}
        found: dict[int, Windows] = {rate: {} for rate in RATES}
        for _ in range(WINDOWS):
            began, before = time.monotonic(), {key: _seconds(one) for key, one in families.items()}
            time.sleep(WINDOW_SECONDS)
            for (rate, how), one in families.items():
                spent = [after - was for after, was in zip(_seconds(one), before[rate, how], strict=True)]
                percent = [100 * seconds / (time.monotonic() - began) for seconds in spent]
                found[rate].setdefault(how, []).append(percent[0])
                found[rate].setdefault(f"{how}: beside", []).append(percent[1])
    columns = ("steps a second", "the job without", "more with jaxobs", "control", "the agent")
    return Section("Processor time", [Table("", _TEXT, columns, [_row(*item) for item in found.items()])])


def _seconds(one: Family) -> tuple[float, float]:
    return processor_seconds(one.job), total(one.beside, processor_seconds)


def _row(rate: int, found: Windows) -> list[Cell]:
    def more(how: str) -> list[float]:
        return [one - other for one, other in zip(found[how], found["plain"], strict=True)]

    figures = (found["plain"], more("jaxobs"), more("plain again"), found["jaxobs: beside"])
    return [str(rate), *(Measured(mean(values), OF_A_CORE) for values in figures)]
