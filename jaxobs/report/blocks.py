"""Blocks of which everything that is shown of a run is made; page, notebook and terminal write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from jaxobs.model.snapshot import Document
from jaxobs.report.sentence import Phrase
from jaxobs.report.tables import Column, Row


class Sentence(NamedTuple):
    """Words of which some are strong; `large`: it is what is read first."""

    parts: tuple[Phrase, ...]
    large: bool = False


class Figures(NamedTuple):
    """Titles with their values; `large`: the main figures."""

    pairs: tuple[tuple[str, str], ...]
    large: bool = False


class Reasons(NamedTuple):
    """Sentences on why something is not shown."""

    lines: tuple[str, ...]


class Grid(NamedTuple):
    """A table; `more` says what is not in it."""

    columns: Sequence[Column]
    rows: Sequence[Row]
    caption: str
    more: str = ""


class Folded(NamedTuple):
    """Blocks that are shown on demand, by which `name` is known to the page's script."""

    title: str
    name: str
    blocks: tuple[Block, ...]


class StepBar(NamedTuple):
    """A step as a bar of its parts, seconds by component."""

    parts: Mapping[str, float]


class SharesOverTime(NamedTuple):
    """Shares of the time over time: by component its share of each stretch between two `edges`, with marks on top."""

    edges: Sequence[float]
    shares: Mapping[str, Sequence[float]]
    span: float
    marks: Sequence[tuple[float, str]]


class Curve(NamedTuple):
    """A value over time; NaN where it is not known."""

    name: str
    times: Sequence[float]
    values: Sequence[float]
    span: float
    write: Callable[[float], str]
    from_zero: bool = True
    limit: float | None = None
    tick_unit: float = 1.0
    titled: bool = True


class Legend(NamedTuple):
    """The key to the colours of these components."""

    names: tuple[str, ...]


class Meters(NamedTuple):
    """Lines with their shares, 0 to 1."""

    shares: tuple[tuple[str, float], ...]


class Advice(NamedTuple):
    """Pieces of advice, the most worthwhile first."""

    pieces: Sequence[Document]


class Point(NamedTuple):
    """A measured executable or operation in a roofline. `intensity` and `rate` are above 0."""

    name: str
    kind: Literal["executable", "operation"]
    intensity: float
    """FLOP/byte."""
    rate: float
    """FLOP/s."""
    share: float
    """Its share of the time of all points of its kind, 0 to 1, drawn as its area."""
    bottleneck: str
    """A word of docs/how_it_works/bottlenecks.md, drawn as its colour."""
    about: str
    """Lines of text that are shown under the pointer."""
    attainable: float | None = None
    """FLOP/s at its bound time; under the pointer a line is drawn up to it."""


class RoofLine(NamedTuple):
    """What one kind of device can attain with one element type: `min(intensity × bytes/s, FLOP/s)`."""

    device_kind: str
    dtype: str
    flops_per_second: float
    bytes_per_second: float

    @property
    def ridge(self) -> float:
        """The intensity, FLOP/byte, from which on the roof is flat."""
        return self.flops_per_second / self.bytes_per_second

    def at(self, intensity: float) -> float:
        """FLOP/s that work of this intensity can attain."""
        return min(intensity * self.bytes_per_second, self.flops_per_second)


class Nearness(NamedTuple):
    """Points below the roofs of their devices."""

    roofs: Sequence[RoofLine]
    points: Sequence[Point]


Block = (
    Sentence
    | Figures
    | Reasons
    | Grid
    | Folded
    | StepBar
    | SharesOverTime
    | Curve
    | Legend
    | Meters
    | Advice
    | Nearness
)


@dataclass(frozen=True, slots=True)
class Section:
    """Blocks under a heading; without `title` they stand for themselves."""

    name: str
    blocks: tuple[Block, ...]
    title: str = ""
    note: str = ""
