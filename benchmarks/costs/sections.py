"""What the figures of costs find: sections with tables, the files they are kept in, and the page that is made of them."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.paired import Interval, mean, median, paired_difference, paired_ratio

FOLDER = Path(__file__).parents[2] / "docs" / "results" / "benchmarks"


@dataclass(frozen=True)
class Measured:
    """A cell with a figure. `unit` is `s`, `B`, or what stands behind the number; empty for a ratio."""

    interval: Interval
    unit: str = ""


Cell = str | Measured

Values = Sequence[float]


def middle(values: Values, unit: str = "s") -> Measured:
    """The median."""
    return Measured(median(values), unit)


def average(values: Values, unit: str) -> Measured:
    """The mean: for what is rare and counts all the same."""
    return Measured(mean(values), unit)


def ratio(of: Values, to: Values) -> Measured:
    """The median of the rounds' ratios."""
    return Measured(paired_ratio(of, to))


def percent(of: Values, to: Values) -> Measured:
    """Likewise, in per cent."""
    return Measured(paired_ratio(of, to).times(100), "%")


def more(of: Values, less: Values, unit: str = "s") -> Measured:
    """The median of the rounds' differences."""
    return Measured(paired_difference(of, less), unit)


@dataclass(frozen=True)
class Table:
    """Rows under their columns. `text` says what is compared and how it was measured."""

    title: str
    text: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True)
class Demand:
    """What a figure must show, and whether it did."""

    text: str
    held: bool


@dataclass(frozen=True)
class Section:
    """What one figure found. `missing` says what could not be measured, and why."""

    title: str
    tables: Sequence[Table]
    demands: Sequence[Demand] = ()
    missing: Sequence[str] = ()
    measured: dict[str, str] = field(default_factory=dict)
    """Date, load average, machine, system and versions, by these names."""


def keep(name: str, section: Section, folder: Path = FOLDER) -> None:
    """Put it in its file."""
    folder.mkdir(parents=True, exist_ok=True)
    written = json.dumps(asdict(section), indent=1, ensure_ascii=False)
    (folder / f"{name}.json").write_text(written + "\n", encoding="utf-8")


def kept(name: str, folder: Path = FOLDER) -> Section | None:
    """What `keep` put there; None where the figure was never measured."""
    file = folder / f"{name}.json"
    if not file.exists():
        return None
    found = json.loads(file.read_text(encoding="utf-8"))
    tables = [
        Table(**{**table, "rows": [[_cell(cell) for cell in row] for row in table["rows"]]})
        for table in found.pop("tables")
    ]
    demands = [Demand(**demand) for demand in found.pop("demands")]
    return Section(tables=tables, demands=demands, **found)


def _cell(cell: str | dict[str, Any]) -> Cell:
    if isinstance(cell, str):
        return cell
    return Measured(Interval(*cell["interval"]), str(cell["unit"]))


_BEGINNING = """# What jaxobs costs, beside its peers

`make benchmarks-report` measures this and writes the page; `ARGS="--only step_cost"` measures one section anew. The
figures are data in `docs/results/benchmarks/` too.

What is compared takes turns within one run. A figure is the median over the rounds with its 95 % interval, a ratio the
median of the rounds' ratios. *Control* compares a thing with itself: what it shows is noise. Where the load average is
above the number of cores, times are too long; ratios are not.
"""

_WIDTH = 122
_SCALES = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
    "B": ((2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")),
}


NEAR_ONE = (0.9, 1.1)
CONTROL = "control"
"""How the title of a column begins that compares a thing with itself."""


def page(sections: Sequence[Section]) -> str:
    """The whole document. At its top is the machine of the newest section; what differs is named where it comes first."""
    newest = _where(max(sections, key=lambda section: section.measured["date"]).measured)
    parts = [_BEGINNING, _lines(newest)]
    told = {"": ""}
    for section in sections:
        parts.append(f"## {section.title}\n")
        where = _lines(
            {name: value for name, value in _where(section.measured).items() if value != newest[name]}
        )
        same = told.setdefault(where, section.title)
        beside = f" on the machine of *{same}*" if same not in {"", section.title} else ""
        load = section.measured["load average"]
        parts.append(f"Measured on {section.measured['date']}{beside}; load average when it began: {load}.\n")
        if same == section.title:
            parts.append(where)
        parts.append(section_text(section))
    return "\n".join(parts)


def _where(measured: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in measured.items() if name in {"machine", "system", "versions"}}


def _lines(facts: Mapping[str, str]) -> str:
    return "".join(f"- {name}: {value}\n" for name, value in facts.items())


def section_text(section: Section) -> str:
    """What it must show and did not show, its tables, and what is missing."""
    parts = []
    for word, held in (("Held", True), ("**Not held**", False)):
        if texts := [demand.text for demand in section.demands if demand.held is held]:
            parts.append(f"{word}: {'; '.join(texts)}.\n")
    parts += [table_text(table) for table in section.tables]
    parts += [f"Not measured: {missing}.\n" for missing in section.missing]
    return "\n".join(parts)


def table_text(table: Table) -> str:
    """Title, text and rows. Of columns with a control there is one line for all rows."""
    shown = [place for place, column in enumerate(table.columns) if not column.startswith(CONTROL)]
    lines = [table.columns, *([*map(cell_text, row)] for row in table.rows)]
    columns, *others = ([line[place] for place in shown] for line in lines)
    rows = "\n".join(markdown_table(columns, others))
    title = f"### {table.title}\n\n" if table.title else ""
    text = textwrap.fill(" ".join(table.text.split()), _WIDTH, break_on_hyphens=False)
    return f"{title}{text}\n\n{rows}\n{_controls(table)}"


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    return [f"| {' | '.join(row)} |" for row in (columns, ["---"] * len(columns), *rows)]


def _controls(table: Table) -> str:
    """From where to where the controls lie, by their middles; empty where there are none."""
    places = [place for place, column in enumerate(table.columns) if column.startswith(CONTROL)]
    cells = [cell for row in table.rows for place in places if isinstance(cell := row[place], Measured)]
    cells.sort(key=lambda cell: cell.interval.middle)
    ends = dict.fromkeys(map(cell_text, (*cells[:1], *cells[-1:])))
    return f"\nControl: {' to '.join(ends)}.\n" if ends else ""


def cell_text(cell: Cell) -> str:
    """A figure with its interval, all three in the unit that suits the largest."""
    if not isinstance(cell, Measured):
        return cell
    scales = _SCALES.get(cell.unit, ((1.0, cell.unit),))
    most = max(abs(value) for value in cell.interval)
    by, unit = next((scale for scale in scales if most >= scale[0]), scales[-1])
    near_one = not cell.unit and NEAR_ONE[0] < cell.interval.middle < NEAR_ONE[1]
    digits = _of_ratio_near_one if near_one else _digits
    middle, low, high = (digits(value / by) for value in cell.interval)
    between = "–" if min(cell.interval) >= 0 else " to "
    return f"{middle} {unit} ({low}{between}{high})".replace("  ", " ")


def _of_ratio_near_one(value: float) -> str:
    """What matters is by how much it is not 1."""
    return f"{value:.4f}"


def _digits(value: float) -> str:
    """Three significant digits, two below 0.001, and no exponent."""
    if not value:
        return "0"
    places = 2 - math.floor(math.log10(abs(value)))
    return f"{value:.{max(0, places if places < 6 else places - 1)}f}"
