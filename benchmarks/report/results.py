"""What a figure found, and the file it is kept in until the figure is measured again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.paired import Interval

FOLDER = Path(__file__).parents[2] / "docs" / "results" / "benchmarks"


@dataclass(frozen=True)
class Measured:
    """A cell with a figure. `unit` is `s`, `B`, or what stands behind the number; empty for a ratio."""

    interval: Interval
    unit: str = ""


Cell = str | Measured


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
