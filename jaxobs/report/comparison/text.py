"""A comparison as text: what became slower or faster and why, in sentences, and then the tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from jaxobs.report.comparison.finding import Comparison, Effect, Finding, Row, StepTime
from jaxobs.report.comparison.noise import CONFIDENCE, RUN_TO_RUN
from jaxobs.report.comparison.step_time import relative
from jaxobs.report.text_table import PLAIN_WIDTH, TextTable, to_text
from jaxobs.vocabulary.units import duration

NO_REASON: Final = "nothing in the records tells why"
INTERVALS: Final = (
    f"The intervals are of {CONFIDENCE:.0%}, from how the runs varied within themselves; below {RUN_TO_RUN:.0%} two "
    "runs differ anyway. Figures without an interval are one value of each run."
)


def text(comparison: Comparison, *, width: int = PLAIN_WIDTH, bold: bool = False) -> str:
    """The whole comparison as text, without a newline at its end; A is the first run and B the second."""
    return to_text(_parts(comparison), width=width, bold=bold)


def _parts(comparison: Comparison) -> Iterator[TextTable | str]:
    yield _table("", comparison.headers)
    for time in comparison.step_times:
        yield ""
        yield sentence_of(time)
        yield from (f"  {reason}" for reason in explanations(time, comparison.findings))
    if others := without_bearing(comparison):
        yield from ("", "also different in B:")
        yield from (f"  {finding.sentence}" for finding in others)
    for title, rows in comparison.tables.items():
        yield ""
        yield _table(title, rows)
    if comparison.not_compared:
        yield from ("", "not compared:")
        yield from (f"  {line}" for line in comparison.not_compared)
    yield from ("", INTERVALS)


def sentence_of(time: StepTime) -> str:
    """A sentence that says how much slower or faster the loop became."""
    if time.change is None:
        return f"Whether `{time.loop}` became slower cannot be told: {time.reason}."
    figures = f"{duration(time.after or 0.0)} a step instead of {duration(time.before or 0.0)}, {relative(time.change)}"
    if time.verdict == "within the noise":
        return f"`{time.loop}` is as fast in B as in A, as far as the noise lets one see: {figures}."
    return f"`{time.loop}` is {time.verdict} in B: {figures}."


def explanations(time: StepTime, findings: tuple[Finding, ...]) -> list[str]:
    """Why the loop became slower or faster, or that nothing tells; nothing where it did not."""
    if time.verdict not in {"slower", "faster"}:
        return []
    return [f"because {finding.sentence}" for finding in reasons_of(time, findings)] or [NO_REASON]


def reasons_of(time: StepTime, findings: tuple[Finding, ...]) -> list[Finding]:
    """Findings that may explain the change: those with its direction, and open ones such as a version or a setting."""
    if time.verdict not in {"slower", "faster"}:
        return []
    return [finding for finding in findings if finding.effect in {Effect(time.verdict), Effect.OPEN}]


def without_bearing(comparison: Comparison) -> list[Finding]:
    """Findings that explain no change of any loop."""
    reasons = {finding for time in comparison.step_times for finding in reasons_of(time, comparison.findings)}
    return [finding for finding in comparison.findings if finding not in reasons]


def _table(title: str, rows: tuple[Row, ...]) -> TextTable:
    columns: tuple[str, ...] = ("", "A", "B", "change", "")
    cells: list[tuple[str, ...]] = [
        (row.what, row.before, row.after, row.change, row.verdict) for row in rows
    ]
    while len(columns) > 3 and not any(row[-1] for row in cells):  # the last column is empty
        columns, cells = columns[:-1], [row[:-1] for row in cells]
    table = TextTable(columns, title=title, left=columns)
    for row in cells:
        table.add(*row)
    return table
