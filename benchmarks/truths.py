"""Programs that know a truth, and what jaxobs shows of them beside it: one runner, one table, one exit status.

A case is a program, its figures with their tolerances, and how it is run. A figure is right within its tolerance,
absent, WRONG, or only shown, where there is no truth to hold it against.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeVar, get_args

from benchmarks.observed import How, Run, run
from benchmarks.paired import Interval
from jaxobs.report.sentence import CLEAR

Verdict = Literal["right", "absent", "shown", "WRONG"]
Value = float | str | bool | None
Chosen = TypeVar("Chosen")

COLUMNS = ("program", "figure", "truth", "shown", "", "note")


@dataclass(frozen=True)
class Figure:
    """What jaxobs shows, and what it must show.

    Attributes:
        name: What it is.
        found: What jaxobs shows; None where it shows nothing.
        truth: What it must be, from a source that is not jaxobs.
        relative: Largest distance from the truth, as a share of it.
        absolute: Largest distance from the truth, in the unit of the figure.
        between: The smallest and the largest value that are right.
        unit: `s`, `FLOP/s`, …; empty for ratios, counts and texts.
        note: Where the truth comes from, or what else is to be said.
        reason: Why nothing is shown.
    """

    name: str
    found: Value = None
    truth: Value = None
    relative: float | None = None
    absolute: float | None = None
    between: tuple[float, float] | None = None
    unit: str = ""
    note: str = ""
    reason: str | None = None

    @property
    def verdict(self) -> Verdict:
        """Whether it is right."""
        if self.found is None:
            return "absent"
        if self.between is not None:
            low, high = self.between
            return _verdict(isinstance(self.found, int | float) and low <= self.found <= high)
        if self.truth is None:
            return "shown"
        if isinstance(self.truth, str | bool) or isinstance(self.found, str | bool):
            return _verdict(self.found == self.truth)
        allowed = self.absolute if self.absolute is not None else (self.relative or 0.0) * abs(self.truth)
        return _verdict(abs(self.found - self.truth) <= allowed)

    @property
    def cells(self) -> tuple[str, str, str, str, str]:
        """Its name, the truth with its tolerance, what is shown and by how much it is off, the verdict, what is said."""
        shown = text_of(self.found, self.unit)
        if isinstance(self.found, float) and isinstance(self.truth, float) and self.truth and self.relative:
            shown += f" ({self.found / self.truth - 1:+.1%})"
        truth = text_of(self.truth, self.unit)
        if self.between is not None:
            truth = " to ".join(text_of(end, self.unit) for end in self.between)
        elif self.absolute:
            truth += f" ± {text_of(self.absolute, self.unit)}"
        elif self.relative:
            truth += f" ± {100 * self.relative:g} %"
        said = self.note if self.found is not None else self.reason or self.note
        return self.name, truth, shown, self.verdict, said


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """As the pages of docs/results show them."""
    shown = ([" ".join(cell.replace("|", "\\|").split()) for cell in row] for row in rows)
    return "".join(f"| {' | '.join(row)} |\n" for row in (columns, ["---"] * len(columns), *shown))


_SCALES = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
    "B": ((2.0**20, "MiB"), (2.0**10, "KiB")),
}


def text_of(value: Value, unit: str = "") -> str:
    """A number with five digits in the unit that suits its size, or the text as it is."""
    if value is None:
        return "–"
    if isinstance(value, str | bool):
        return str(value)
    fitting = (scale for scale in _SCALES.get(unit, ()) if abs(value) >= scale[0])
    by, unit = next(fitting, (1.0, unit))
    return f"{value / by:.5g} {unit}".strip()


def interval(name: str, found: Interval, unit: str = "", **demand: Any) -> Figure:
    """A figure that was measured in rounds: its middle, with the interval beside it."""
    note = f"95 %: {text_of(found.low, unit)} to {text_of(found.high, unit)}"
    return Figure(name, found.middle, unit=unit, note=note, **demand)


Rows = Iterable[tuple[str, Iterable[Figure]]]
"""Figures of several programs, each with its name."""


def _verdict(right: bool) -> Verdict:
    return "right" if right else "WRONG"


Shown = Callable[[Run], Figure]
"""A figure of a run that came to its end, beside what the program says of itself."""


def label(*also: str) -> Shown:
    """The bottleneck of the loop that took longest: that of the program's truth, or one of those that are right as well.

    One that is unknown, or of which the summary says that none is clear, is absent.
    """

    def figure(run: Run) -> Figure:
        verdict = run.loop.get("bottleneck")
        if verdict is None:
            return Figure("bottleneck", None, run.truth["label"], note="no loop has a rate")
        allowed = (run.truth["label"], *also, *run.truth.get("also", ()))
        shares = sorted(verdict["shares"].items(), key=lambda pair: -pair[1])[:3]
        windows = (run.loop["profile"] or {}).get("windows", 0)
        note = f"{verdict['confidence']:.2f}, {windows} windows: " + (
            ", ".join(f"{word} {share:.0%}" for word, share in shares) or str(verdict["reason"])
        )
        clear = verdict["label"] != "unknown" and verdict["confidence"] >= CLEAR
        truth = verdict["label"] if verdict["label"] in allowed else allowed[0]
        return Figure("bottleneck", verdict["label"] if clear else None, truth, note=note)

    return figure


class Case(NamedTuple):
    """A program that tells its truth, how it is run, and its figures, each with the tolerance that it allows.

    `must_be_shown`: of all such figures together, one of forty may be absent.
    """

    name: str
    program: Path
    figures: Iterable[Shown]
    how: How = "plain"
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = MappingProxyType({})
    must_be_shown: bool = False


ENOUGH = 39 / 40


@dataclass
class Table:
    """Rows of figures, printed as they come and once more together at the end."""

    _rows: list[tuple[str, Figure, bool]] = field(default_factory=list)

    def add(self, program: str, figures: Iterable[Figure], *, must_be_shown: bool = False) -> None:
        """Take the figures of a program."""
        for figure in figures:
            self._rows.append((program, figure, must_be_shown))
            print(" | ".join((program, *figure.cells)), file=sys.stderr, flush=True)

    @property
    def verdicts(self) -> Counter[Verdict]:
        """How many are right, absent, shown and WRONG."""
        return Counter(figure.verdict for _, figure, _ in self._rows)

    def text(self) -> str:
        """The table as Markdown, what is wrong first; then how many have each verdict."""
        ordered = sorted(self._rows, key=lambda row: row[1].verdict != "WRONG")
        rows = markdown_table(COLUMNS, ((program, *one.cells) for program, one, _ in ordered))
        counts = self.verdicts
        return f"{rows}\n{', '.join(f'{counts[one]} {one}' for one in get_args(Verdict))}"

    def status(self) -> int:
        """Print the table, if it has rows; 1 where something is wrong, or too much is absent."""
        print(self.text() if self._rows else "")
        needed = [figure.verdict for _, figure, must_be_shown in self._rows if must_be_shown]
        return int("WRONG" in self.verdicts or needed.count("right") < ENOUGH * len(needed))


def figures_of(case: Case, timeout: float) -> list[Figure]:
    """Run a case, and hold what is shown of it against what it says."""
    try:
        ended = run(
            case.program, *case.arguments, how=case.how, timeout=timeout, environment=case.environment
        )
    except subprocess.TimeoutExpired as hung:
        return [Figure("its end", f"none within {hung.timeout:.0f} s", "status 0")]
    if not ended.truth:
        return [Figure("its end", f"status {ended.status}: {ended.stderr[-300:]}", "status 0")]
    return [figure(ended) for figure in case.figures]


def options_of(description: str | None, *, only: bool = True) -> argparse.ArgumentParser:
    """The options that all commands of this kind have; `only`: those that have cases to choose from."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if only:
        parser.add_argument("--only", help="names, separated by commas")
    return parser


def chosen(only: str | None, cases: Iterable[tuple[str, Chosen]]) -> list[Chosen]:
    """The cases of the names in `only`, separated by commas, or all; some may share a name.

    Raises SystemExit, with the names that there are, for one that none has.
    """
    named = list(cases)
    known = dict.fromkeys(name for name, _ in named)
    wanted = only.split(",") if only else list(known)
    if unknown := [name for name in wanted if name not in known]:
        raise SystemExit(f"--only: there is no {', '.join(unknown)}; there are {', '.join(known)}")
    return [case for name, case in named if name in wanted]


def know_peaks(python: Path | str = sys.executable) -> None:
    """Measure those of this machine, once: else there is no MFU, and nothing is compute or memory.

    They hold for the JAX of an interpreter, so each that runs a program measures its own.
    """
    measure = "from jaxobs.cli import demo; from jaxobs.config import load_settings; demo.ensure_peaks(load_settings())"
    subprocess.run([python, "-c", measure], check=True)


def judge(cases: Sequence[Case], *, runs: int = 1, timeout: float = 240.0) -> int:
    """Run each case so many times and print what was found; the exit status."""
    know_peaks()
    table = Table()
    for case in cases:
        for _ in range(runs):
            table.add(case.name, figures_of(case, timeout), must_be_shown=case.must_be_shown)
    return table.status()
