"""The results page: every figure beside its truth, and what was not measured, with reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.gpu_check.figures import Figure, Value
from benchmarks.gpu_check.runner import Outcome


def page(
    date: str, device_kind: str, facts: Mapping[str, str], outcomes: Sequence[Outcome], command: str,
    evidence: Sequence[Path], left_out: Sequence[str],
) -> str:  # fmt: skip
    """The page as Markdown."""
    count = {
        verdict: sum(each.count(verdict) for each in outcomes) for verdict in ("right", "WRONG", "shown")
    }
    lines = [
        f"# Seen on {device_kind}, {date}",
        "",
        f"Written by `{command}`. What each check does is written in `benchmarks/gpu_check/checks/`.",
        "",
        f"{count['right']} figures are right, {count['WRONG']} wrong, {count['shown']} shown with no truth beside them.",
        "",
        "| what | |",
        "|---|---|",
        *(f"| {name} | {_cell(value)} |" for name, value in facts.items()),
        "",
        *_wrong(outcomes),
    ]
    for outcome in outcomes:
        lines += _section(outcome)
    lines += ["## Evidence", ""]
    lines += [f"- `{path.name}`, {path.stat().st_size / 2**20:.1f} MiB" for path in evidence] or ["None."]
    lines += [f"- left out: {name}" for name in left_out]
    return "\n".join(lines) + "\n"


def _wrong(outcomes: Sequence[Outcome]) -> list[str]:
    wrong = [figure for outcome in outcomes for figure in outcome.figures if figure.verdict == "WRONG"]
    failed = [outcome for outcome in outcomes if outcome.failed]
    if not wrong and not failed:
        return []
    return [
        "## Wrong",
        "",
        *(f"- {figure.check}: {figure.name}: {_amount(figure.found, figure.unit)}" for figure in wrong),
        *(f"- {outcome.check.name}: {outcome.reason}" for outcome in failed),
        "",
    ]


def _section(outcome: Outcome) -> list[str]:
    lines = [f"## {outcome.check.title}", ""]
    told = [figure for figure in outcome.figures if figure.verdict != "not measured"]
    absent = [figure for figure in outcome.figures if figure.verdict == "not measured"]
    if told:
        lines += [
            f"Check `{outcome.check.name}`, {outcome.seconds:.0f} s.",
            "",
            "| figure | found | truth | tolerance | from | verdict |",
            "|---|---|---|---|---|---|",
            *(_row(figure) for figure in told),
            "",
        ]
    for note in outcome.notes:
        lines += [_cell(note), ""]
    if absent or outcome.reason:
        lines += ["Not measured:", ""]
        lines += [f"- {figure.name}: {_cell(figure.reason)}" for figure in absent]
        lines += [f"- the rest: {_cell(outcome.reason)}"] if outcome.reason else []
        lines.append("")
    return lines


def _row(figure: Figure) -> str:
    cells = (
        figure.name, _amount(figure.found, figure.unit), _truth(figure), _tolerance(figure), figure.source,
        figure.verdict,
    )  # fmt: skip
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _truth(figure: Figure) -> str:
    if figure.truth is not None:
        return _amount(figure.truth, figure.unit)
    return "–" if figure.between is None else "within"


def _tolerance(figure: Figure) -> str:
    if figure.between is not None:
        return " to ".join(_amount(end, figure.unit) for end in figure.between)
    if figure.absolute is not None:
        return f"± {_amount(figure.absolute, figure.unit)}"
    if figure.relative is not None:
        return f"± {figure.relative:.2%}"
    return "exact" if figure.truth is not None else "–"


def _amount(value: Value, unit: str) -> str:
    if value is None:
        return "–"
    if isinstance(value, str | bool):
        return str(value)
    return f"{value:.6g} {unit}".strip()


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
