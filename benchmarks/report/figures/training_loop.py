"""Step time with jaxobs over step time without, in loops of 0.1 to 100 ms a step: `make benchmark NAME=training_loop`.

Takes 44 minutes. `python -m benchmarks.overhead` measures single loops.
"""

from __future__ import annotations

from benchmarks.overhead.loops import CORES, Phase, loop
from benchmarks.overhead.model import TARGETS
from benchmarks.report.results import Cell, Demand, Measured, Section, Table

SECONDS = {"every": 150.0, "one-free": 60.0}
"""After the first minute: where the job uses every core, what else the machine does falls into the ratio more."""

_TEXT = f"""A loop with everything of jaxobs at its default: steps marked, the function watched, the loss recorded, and
read each tenth step. One process makes a tenth of a second of steps so, two tenths plain, one so again, and on: its
memory lies in the same places in both, which is worth some per cent between processes. The agent is suspended in the
plain parts, so that all it does falls into the others; it has a turn every two seconds, one for each in which it runs.
A ratio is of such a group of four, and the median of the groups stands with the bootstrap's interval. The mean holds
what falls into few groups too (profiler windows, turns of the agent), and whatever else the machine did. The control
does the same with nothing in either part. First minute: from `instrument()` on; after it: {SECONDS["every"]:g} s with
every core, {SECONDS["one-free"]:g} s with one less (`one-free`). `threads`: what the threads of jaxobs in the job take
while nothing is marked, in both parts, so that the ratio leaves it out."""

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
        for phase in loop(milliseconds, cores, SECONDS[cores])
    ]
    rows: list[list[Cell]] = [
        [
            phase.cores, phase.name, f"{phase.step_ms:.3g} ms", Measured(phase.jaxobs), Measured(phase.control),
            Measured(phase.jaxobs_mean), Measured(phase.control_mean), f"{phase.threads:.2%} of a core",
        ]
        for phase in phases
    ]  # fmt: skip
    columns = ("cores", "when", "step", "with jaxobs", "control", "mean", "control", "threads")
    demands = [_demand(phase) for phase in phases if phase.name != "first minute"]
    return Section("A training loop", [Table("", _TEXT, columns, rows)], demands)


def _demand(phase: Phase) -> Demand:
    if phase.milliseconds <= SHORT:
        held = phase.jaxobs.middle <= MOST_OF_SHORT
        return Demand(f"{phase.milliseconds:g} ms, {phase.cores}: at most {MOST_OF_SHORT}", held)
    most = MOST[phase.cores]
    text = f"{phase.milliseconds:g} ms, {phase.cores}: the interval lies below {most}"
    return Demand(text, phase.jaxobs.high < most)
