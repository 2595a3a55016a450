"""What a panel is: its question, its queries, and why it can be empty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Kind = Literal["timeseries", "stat", "table", "state-timeline", "xychart", "heatmap"]
Absence = Literal["until it happens", "without such a device", "where the host has none"]
"""When a query may give nothing: the first is empty on a healthy job, the others say what the machine lacks."""


MAX_LINES: Final = 20
"""Most lines of ranks, hosts or devices on a panel at a time: more cannot be told apart, and a run may have thousands."""


BUCKETS: Final = "{{le}}"
"""The legend of a query whose lines are the buckets of a histogram."""


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL expression. `table`: its newest values as rows; else lines over time.

    `rows_over_time`: every value as a row, for panels that show a label as it changes. `exemplars` are shown beside it.
    """

    expression: str
    legend: str = ""
    name: str = "A"
    table: bool = False
    rows_over_time: bool = False
    exemplars: bool = False
    smallest: bool = False
    """Where a line is one of many ranks: the smallest values are shown, not the largest."""
    optional: str = ""
    """Why it may give nothing while the panel's others do."""

    @property
    def has_many_lines(self) -> bool:
        """Whether each process or host has a line."""
        return "{{rank}}" in self.legend or "{{host}}" in self.legend

    @property
    def has_page(self) -> bool:
        """Whether each line is one process and has the label `instance`, which recorded series have not."""
        return "{{rank}}" in self.legend and ":jaxobs_" not in self.expression

    @property
    def promql(self) -> str:
        """What is asked of Prometheus."""
        if not self.has_many_lines:
            return self.expression
        return f"{'bottomk' if self.smallest else 'topk'}({MAX_LINES}, {self.expression})"


@dataclass(frozen=True, slots=True)
class Transformation:
    """A step that Grafana takes between answer and picture; `only` is a pattern of the queries that it is for."""

    kind: str
    options: Mapping[str, Any]
    only: str = ""


def columns(
    titles: Mapping[str, str],
    *,
    hidden: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
    largest: str = "",
) -> tuple[Transformation, ...]:
    """The transformations of a table whose queries give its columns, by the name of the query.

    `hidden`: the queries of which the labels alone are of interest. `labels`: other titles of labels. `largest`: the
    title by which the rows are sorted.
    """
    excluded = {"Time": True} | {f"Value #{query}": True for query in hidden}
    renamed = {**(labels or {}), **{f"Value #{query}": title for query, title in titles.items()}}
    organized = Transformation("organize", {"excludeByName": excluded, "renameByName": renamed})
    found = (Transformation("merge", {}), organized)
    return (*found, sorted_by(largest, desc=True)) if largest else found


def one_column(title: str) -> Transformation:
    """The transformation of a table of one query, which Grafana may or may not name."""
    return Transformation(
        "organize", {"excludeByName": {"Time": True}, "renameByName": {"Value": title, "Value #A": title}}
    )


def sorted_by(field: str, **order: bool) -> Transformation:
    """The transformation that sorts the rows by a column."""
    return Transformation("sortBy", {"fields": {}, "sort": [{"field": field, **order}]})


LABELS_ALONE: Final = Transformation("organize", {"excludeByName": {"Time": True, "Value": True}})
"""The transformation of a table whose values say nothing."""


@dataclass(frozen=True, slots=True)
class Override:
    """Properties of the field with this name, by Grafana's names for them.

    `of_query`: of every field that the query with this name gives, where the legend makes the fields' own names.
    """

    name: str
    properties: Mapping[str, Any]
    of_query: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """One panel. `empty` is what stands there when no query gives anything, and `absence` when that is right."""

    title: str
    description: str
    queries: Sequence[Query]
    unit: str = "short"
    kind: Kind = "timeseries"
    width: int = 12
    height: int = 8
    empty: str = ""
    absence: Absence | None = None
    stacked: bool = False
    minimum: float | None = None
    maximum: float | None = None
    steps: Sequence[tuple[float, str]] = ()
    """Thresholds: from which value on which colour; below the first it is green."""
    transformations: Sequence[Transformation] = ()
    overrides: Sequence[Override] = ()
    series: Sequence[Mapping[str, Any]] = ()
    """Of an XY chart: which fields are its axes, by frame."""
    words: Mapping[str, str] = field(default_factory=dict)
    """Colours of texts."""
    links: Sequence[tuple[str, str]] = ()
    """Title and address of what a click on a value offers."""


@dataclass(frozen=True, slots=True)
class Row:
    """Panels that answer one question, which is its title."""

    question: str
    charts: Sequence[Chart]


@dataclass(frozen=True, slots=True)
class Page:
    """One dashboard."""

    uid: str
    title: str
    description: str
    rows: Sequence[Row]
    variables: Sequence[str] = ()
    """Beyond those that every dashboard has."""
