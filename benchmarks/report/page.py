"""Sections as Markdown. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from benchmarks.report.results import Cell, Measured, Section, Table

_BEGINNING = """# What jaxobs costs, beside its peers

Written by `make benchmarks-report`, which measures everything here; with `ARGS="--only step_cost"` it measures one
section anew and leaves the others. `benchmarks/report/figures/` has the code of each, `docs/results/benchmarks/` the
figures as data.

What is compared is measured in turns within one run, in another order each round, so that a busy machine slows all
alike. A figure is the median over the rounds; in brackets is its 95 % interval, from a bootstrap over the rounds. A
ratio is the median of the rounds' ratios, not the ratio of medians. The column *control* compares a thing with itself
in the same rounds: a difference that the control shows too is noise.
"""

_WIDTH = 122
_SCALES = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
    "B": ((2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")),
}


def page(sections: Iterable[Section]) -> str:
    """The whole document."""
    parts = [_BEGINNING]
    where = ""
    for section in sections:
        parts.append(f"## {section.title}\n")
        described = described_run(section)
        if described != where:
            parts.append(f"{described}\n")
            where = described
        parts.append(section_text(section))
    return "\n".join(parts)


def described_run(section: Section) -> str:
    """When, where and with which versions; the next section leaves it out where it is the same."""
    return "Measured " + ". ".join(f"{name}: {value}" for name, value in section.measured.items()) + "."


def section_text(section: Section) -> str:
    """What it must show and did not show, its tables, and what is missing."""
    parts = [f"{'Held' if demand.held else '**Not held**'}: {demand.text}.\n" for demand in section.demands]
    parts += [table_text(table) for table in section.tables]
    parts += [f"Not measured: {missing}.\n" for missing in section.missing]
    return "\n".join(parts)


def table_text(table: Table) -> str:
    """Title, text and rows."""
    lines = [
        table.columns,
        ["---"] * len(table.columns),
        *([cell_text(cell) for cell in row] for row in table.rows),
    ]
    rows = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    title = f"### {table.title}\n\n" if table.title else ""
    text = textwrap.fill(" ".join(table.text.split()), _WIDTH, break_on_hyphens=False)
    return f"{title}{text}\n\n{rows}\n"


def cell_text(cell: Cell) -> str:
    """A figure with its interval, all three in the unit that suits the largest."""
    if not isinstance(cell, Measured):
        return cell
    scales = _SCALES.get(cell.unit, ((1.0, cell.unit),))
    most = max(abs(value) for value in cell.interval)
    by, unit = next((scale for scale in scales if most >= scale[0]), scales[-1])
    middle, low, high = (_digits(value / by) for value in cell.interval)
    return f"{middle} {unit} ({low} to {high})".replace("  ", " ")


def _digits(value: float) -> str:
    """Three significant digits, and no exponent."""
    if abs(value) >= 100:
        return f"{value:.0f}"
    for least, places in ((10, 1), (1, 2), (0.1, 3)):
        if abs(value) >= least:
            return f"{value:.{places}f}"
    return f"{value:.4f}" if value else "0"
