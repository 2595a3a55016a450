"""The results page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from benchmarks.gpu_check.runner import Outcome
from benchmarks.truths import markdown_table


def page(title: str, facts: Mapping[str, str], outcomes: Sequence[Outcome]) -> str:
    """The page as Markdown: every figure beside its truth, what is wrong first, and why what is missing is missing."""
    right, wrong, shown = (
        sum(each.count(verdict) for each in outcomes) for verdict in ("right", "WRONG", "shown")
    )
    lines = [
        f"# Seen on {title}",
        "",
        "Written by `make gpu-check`. What each check does is written in `benchmarks/gpu_check/checks/`.",
        "",
        f"{right} figures are right, {wrong} wrong, {shown} shown with no truth beside them.",
        "",
        *_table(("what", ""), facts.items()),
    ]
    names = [f"- {each.check.name}: {name}" for each in outcomes for name in each.wrong]
    names += [f"- {each.check.name}: {each.reason}" for each in outcomes if each.failed]
    lines += ["## Wrong", "", *names, ""] if names else []
    for outcome in outcomes:
        lines += _section(outcome)
    return "\n".join(lines) + "\n"


def _section(outcome: Outcome) -> list[str]:
    lines = [f"## {outcome.check.title}", ""]
    rows = [figure.cells for figure in outcome.figures if figure.verdict != "absent"]
    if rows:
        lines += [f"Check `{outcome.check.name}`, {outcome.seconds:.0f} s.", ""]
        lines += _table(("figure", "truth", "found", "verdict", "from"), rows)
    for note in outcome.notes:
        lines += [_cell(note), ""]
    absent = [f"- {one.name}: {_cell(one.note)}" for one in outcome.figures if one.verdict == "absent"]
    absent += [f"- the rest: {_cell(outcome.reason)}"] if outcome.reason else []
    return lines + (["Not measured:", "", *absent, ""] if absent else [])


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [markdown_table(columns, ([_cell(cell) for cell in row] for row in rows))]


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
