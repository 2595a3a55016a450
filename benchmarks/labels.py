"""Whether a loop's label is right: loops on the CPU, each built so that its cause is at least three times its runner-up.

    python -m benchmarks.labels [--runs 5] [--only compute,input]
    python -m benchmarks.labels --only asynchronous
    python -m benchmarks.labels --only long,large,unmarked [--loaded]

Eight loops wait for the device in each step. Asynchronous ones let the host run ahead of it, as most training does, and
wait every tenth or twentieth step only: for a loss, or for the state that a checkpoint copies. `long` has one operation
of more than a second, `large` an output of 64 MiB that is not donated, and `unmarked` ones run under `jaxobs run` and
call nothing of it. Of these three, and of all with two busy processes beside them (--loaded), an absent label is right
as well. A confidence below 0.1 is shown as none clear, and is absent too. Where a loaded machine compiles for most of a
short loop, that is right.

Each run is a process of its own that marks its steps. In the eight no function is watched, so what the device did is
known from profiler windows alone; the asynchronous ones run both ways. Exit status 1 where a label is wrong, where more
than one of forty is absent that must be known, or where a loop of three steps is not `unknown`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.beside import busy
from benchmarks.observed import How, Run
from benchmarks.truths import Case, Figure, Shown, chosen, judge, label, options_of

LOOPS = Path(__file__).parent / "programs" / "loops.py"

WAITING = ("compute", "memory", "input", "host", "compile", "latency", "checkpoint", "communication")
ASYNCHRONOUS = {
    "compute": 10, "memory": 10, "latency": 20, "input": 10, "host": 20, "checkpoint": 20, "copying": 20,
}  # fmt: skip
"""After how many steps the host waits. The checkpoint of `copying` takes no time but that of the device, for which it
waits; that of `checkpoint` does."""
SECONDS = 7.0
UNUSUAL = {"long": 20.0, "large": 0.0}
"""Seconds that they run longer: a label takes five steps, and the first window as long as they do."""
UNMARKED = ("compute", "memory", "latency", "input", "host", "compile", "large")
UNMARKED_SECONDS = 8.0
"""Seconds that they run longer: a loop is found after some turns, and the first window comes after it."""
LONGER = 5.0
"""Seconds that they run longer: of a host that runs ahead a window may tell less, and the next one comes later."""

EIGHT_DEVICES = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8"}


def unknown(run: Run) -> Figure:
    """A loop of three steps."""
    if run.last is None:
        return Figure("bottleneck", None, "unknown", note="no snapshot came")
    verdicts = [loop["bottleneck"] for loop in (run.last["loops"] or {}).values()]
    verdict = verdicts[0] if verdicts else {"label": "unknown", "reason": "no loop"}
    return Figure("bottleneck", verdict["label"], "unknown", note=verdict["reason"] or "")


def alarms(run: Run) -> Figure:
    """How many hangs and slowdowns were told of a loop that goes on as it began."""
    told = None if run.last is None else len(run.last["hangs"] or ()) + len(run.last["slowdowns"] or ())
    return Figure("alarms", told, 0)


def case(
    name: str, loop: str, seconds: float, *options: str, figures: tuple[Shown, ...] = (label(), alarms),
    how: How = "plain", must_be_shown: bool = False,
) -> Case:  # fmt: skip
    """A loop that runs for so long."""
    environment = EIGHT_DEVICES if loop == "communication" else {}
    arguments = ("unobserved" if how == "observed" else "marked", loop, str(seconds), *options)
    return Case(name, LOOPS, figures, how, arguments, environment=environment, must_be_shown=must_be_shown)


def cases_of(*, loaded: bool) -> Iterator[tuple[str, Case]]:
    """The cases whose label is known, by their groups."""
    known = not loaded
    for loop in WAITING:
        yield loop, case(loop, loop, SECONDS, must_be_shown=known)
    if not loaded:
        yield "compute", case("three steps", "compute", 60.0, "1", "three", figures=(unknown,))
    for loop, every in ASYNCHRONOUS.items():
        for watched in ((), ("watched",)):
            title = f"{loop}, {'watched, ' if watched else ''}host ahead"
            options = (str(every), *watched)
            yield "asynchronous", case(title, loop, SECONDS + LONGER, *options, must_be_shown=known)
    for loop, longer in UNUSUAL.items():
        yield loop, case(loop, loop, SECONDS + longer)
        yield loop, case(f"{loop}, watched", loop, SECONDS + longer, "1", "watched")
    for loop in UNMARKED:
        for every in (1,) if loop in {"compile", "large"} else (1, 10):
            title = f"{loop}, unmarked" + (", asynchronous" if every > 1 else "")
            yield "unmarked", case(title, loop, SECONDS + UNMARKED_SECONDS, str(every), how="observed")


def main() -> int:
    """Run what was asked for; the exit status."""
    parser = options_of(__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--loaded", action="store_true", help="with two busy processes beside each run")
    given = parser.parse_args()
    cases = chosen(given.only, cases_of(loaded=given.loaded))
    with busy(2 if given.loaded else 0):
        return judge(cases, runs=given.runs)


if __name__ == "__main__":
    sys.exit(main())
