"""What costs, as Markdown: figures with their intervals, tables, and sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from benchmarks.paired import Interval, median, paired_difference, paired_ratio
from benchmarks.truths import Figure, markdown_table

Values = Sequence[float]

_SCALES = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
    "B": ((2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")),
}


def middle(values: Values, unit: str = "s") -> str:
    """The median."""
    return cell(median(values), unit)


def ratio(of: Values, to: Values) -> str:
    """The median of the rounds' ratios."""
    return cell(paired_ratio(of, to))


def more(of: Values, less: Values, unit: str = "s") -> str:
    """The median of the rounds' differences."""
    return cell(paired_difference(of, less), unit)


def cell(interval: Interval, unit: str = "") -> str:
    """A figure with its interval, all three in the unit that suits the largest.

    `unit` is `s`, `B`, or what stands behind the number; empty for a ratio, of which it matters by how much it is not 1.
    """
    scales = _SCALES.get(unit, ((1.0, unit),))
    most = max(abs(value) for value in interval)
    by, unit = next((scale for scale in scales if most >= scale[0]), scales[-1])
    near_one = not unit and 0.9 < interval.middle < 1.1
    middle, low, high = (f"{value:.4f}" if near_one else _three_digits(value / by) for value in interval)
    between = "–" if min(interval) >= 0 else " to "
    return f"{middle} {unit} ({low}{between}{high})".replace("  ", " ")


def _three_digits(value: float) -> str:
    """Significant ones, without an exponent."""
    return f"{Decimal(f'{value:.2e}'):f}"


def table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]],
    controls: Sequence[Interval] = (), unit: str = "",
) -> str:  # fmt: skip
    """Title and rows; then from where to where controls lie, by their middles.

    A control compares a thing with itself.
    """
    head = f"### {title}\n\n" if title else ""
    ordered = sorted(controls, key=lambda control: control.middle)
    ends = " to ".join(dict.fromkeys(cell(control, unit) for control in (*ordered[:1], *ordered[-1:])))
    said = f"\nControl: {ends}.\n" if ends else ""
    return f"{head}{markdown_table(columns, rows)}{said}"


class Section(NamedTuple):
    """What was measured. `demands`: what must be so; `missing`: what was not measured."""

    title: str
    tables: Sequence[str]
    demands: Sequence[Figure] = ()
    missing: Sequence[str] = ()

    def text(self, facts: Mapping[str, str]) -> str:
        """The section, with the facts of the machine that it was measured on."""
        listed = "".join(f"- {name}: {value}\n" for name, value in facts.items())
        missing = (f"Not measured: {each}.\n" for each in self.missing)
        return "\n".join((f"## {self.title}\n", listed, *self.tables, *missing))
