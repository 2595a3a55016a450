"""Whether the sampler of the main thread tells the truth, and what it costs.

    python -m benchmarks.host_lines [--seconds 180] [--only sleeping]

A loop spends known times in three lines: pure Python, a sleep, and numpy without the interpreter lock. Of each stretch
of Python the last 5 ms, the interpreter's switch interval, are told as what ran before the call that follows; here that
is the first line. Printed are their shares by the loop's own clock and as jaxobs saw them, and what share of a core the
sampling thread took. At three samples a second a share is off by three points (a standard deviation) after a minute, by
less than two after three. Exit status 1 where a share is off by more than five points, or the sampler took 0.1 % or more.
"""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from pathlib import Path

from benchmarks.observed import Run
from benchmarks.paired import seconds_of
from benchmarks.truths import Case, Figure, Shown, chosen, judge, options_of
from benchmarks.untrue.programs.truth import work_in_python
from jaxobs.model.clock import thread_time_of
from jaxobs.probe.host_lines import BEFORE

TOLERANCE = 0.05
MAX_OF_A_CORE = 0.001


def sleeping(seconds: float) -> None:
    """A call that blocks."""
    time.sleep(seconds)


def native(seconds: float) -> None:
    """Products of some milliseconds' tenths, each without the interpreter lock."""
    import numpy

    matrix = numpy.ones((300, 300))
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        numpy.matmul(matrix, matrix)


PARTS = {work_in_python: 0.015, sleeping: 0.02, native: 0.01}
"""With their seconds."""


def program(seconds: float) -> None:
    """The observed loop: tells the seconds of each part, and those of the sampler."""
    import jax

    import jaxobs
    from jaxobs.plugin.threads import living

    with jaxobs.instrument(prometheus=False):
        jax.jit(lambda x: x + 1)(1.0)  # a job without a backend is not observed
        time.sleep(2.0)
        (sampler,) = [thread.native for thread in living() if thread.name == "jaxobs-host-lines"]
        used, ends = thread_time_of(sampler), time.perf_counter() + seconds
        spent = dict.fromkeys((part.__name__ for part in PARTS), 0.0)
        while time.perf_counter() < ends:
            for part, length in PARTS.items():
                spent[part.__name__] += seconds_of(partial(part, length))
        used = thread_time_of(sampler) - used
        time.sleep(1.5)
    print(json.dumps({"truth": spent | {"sampler": used / seconds}}))


def share(run: Run, name: str) -> Figure:
    """The share of a part of all three."""
    rows = (run.last or {}).get("process", {}).get("host_lines") or ()
    lines = [
        work_in_python.__name__ if row["waits_in"] == BEFORE else row["line"].split()[-1] for row in rows
    ]
    seen = sum(row["seconds"] for row, line in zip(rows, lines, strict=True) if line == name)
    whole = sum(run.truth[part.__name__] for part in PARTS)
    return Figure(name, seen / whole if rows else None, run.truth[name] / whole, absolute=TOLERANCE)


def sampler_of(run: Run) -> Figure:
    """The share of a core that the sampling thread took."""
    samples = (run.last or {}).get("process", {}).get("host_samples")
    return Figure("of a core", run.truth["sampler"], between=(0.0, MAX_OF_A_CORE), note=f"{samples} samples")


def main() -> int:
    """Print the table; the exit status."""
    parser = options_of(__doc__)
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--program", action="store_true", help="be the observed loop")
    given = parser.parse_args()
    if given.program:
        program(given.seconds)
        return 0
    parts = ((part.__name__, partial(share, name=part.__name__)) for part in PARTS)
    figures: list[Shown] = [*chosen(given.only, parts)]
    case = Case(
        "host lines", Path(__file__), (*figures, sampler_of), arguments=("--program", "--seconds", str(given.seconds)),
        environment=dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1"),
    )  # fmt: skip
    return judge([case], timeout=given.seconds + 120.0)


if __name__ == "__main__":
    sys.exit(main())
