"""Step time with jaxobs over step time without, in loops of 0.1 to 100 ms a step: `make benchmark NAME=training_loop`.

Takes about an hour on a quiet machine, and says nothing on one that is not; the control shows which it was.
`python -m benchmarks.overhead` measures single loops.
"""

from __future__ import annotations

from benchmarks.overhead.loops import CORES, FIRST_MINUTE, Phase, loop
from benchmarks.overhead.worker import TARGETS
from benchmarks.report.results import Cell, Demand, Measured, Section, Table

GENERATIONS, ROUNDS = 3, 20

_TEXT = f"""A loop in a process of its own, with everything of jaxobs at its default: steps marked, the function watched,
the loss recorded, and read each tenth step. {GENERATIONS} generations of three processes each (plain, plain as the
control, jaxobs) take turns on the machine, in any order, the others suspended. A ratio is of two turns of one round; the
interval is the bootstrap's over generations and rounds. The first minute is {FIRST_MINUTE[0]} turns of
{FIRST_MINUTE[1]:g} s, with every core; after it there are {ROUNDS} turns of a second, or of thirty steps. `every`: the
loop may use every core; `one-free`: one less. Profiler windows fall into few turns, so that a median leaves them out:
their budget, 0.2 %, comes on top."""

MOST = {"every": 1.02, "one-free": 1.005}
"""The upper end of the interval, after the first minute, of steps of 1 ms and more."""
MOST_OF_SHORT = 1.03
SHORT = 0.1


def measure() -> Section:
    """All loops, with every core and with one less."""
    phases = [
        phase
        for cores in CORES
        for milliseconds in TARGETS
        for phase in loop(milliseconds, cores, GENERATIONS, ROUNDS, seed=0, first_minute=cores == CORES[0])
    ]
    rows: list[list[Cell]] = [
        [
            phase.cores, phase.name, f"{phase.step_ms:.3g} ms", Measured(phase.jaxobs), Measured(phase.control),
        ]
        for phase in phases
    ]  # fmt: skip
    columns = ("cores", "when", "step", "with jaxobs", "control")
    demands = [_demand(phase) for phase in phases if phase.name != "first minute"]
    return Section("A training loop", [Table("", _TEXT, columns, rows)], demands)


def _demand(phase: Phase) -> Demand:
    if phase.milliseconds <= SHORT:
        held = phase.jaxobs.middle <= MOST_OF_SHORT
        return Demand(f"{phase.milliseconds:g} ms, {phase.cores}: at most {MOST_OF_SHORT}", held)
    most = MOST[phase.cores]
    text = f"{phase.milliseconds:g} ms, {phase.cores}: the interval lies below {most}"
    return Demand(text, phase.jaxobs.high < most)
