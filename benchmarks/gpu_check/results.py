"""The results page, and the evidence beside it: a few archives of a size that travels."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks.gpu_check.runner import Outcome

MAX_BYTES = 15 * 2**20
"""Bytes of one archive: some ways of bringing files from a borrowed machine take no more than 16 MiB each."""

MAX_ARCHIVES = 4
"""Archives: with the page less than 64 MiB, as some of those ways take no more together."""


class Archives:
    """`evidence-1.zip`, `evidence-2.zip`, …, each no larger than MAX_BYTES. Files come in order of worth."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = 1
        self.left_out: list[str] = []
        """Names of files that did not fit, with their sizes."""

    def add(self, check: str, folder: Path) -> None:
        """Add every file of a check's folder, the small ones first."""
        files = [path for path in folder.rglob("*") if path.is_file()]
        for path in sorted(files, key=lambda path: path.stat().st_size):
            self._add(path, f"{check}/{path.relative_to(folder)}")

    @property
    def paths(self) -> list[Path]:
        """The archives so far."""
        return sorted(self._folder.glob("evidence-*.zip"))

    def _add(self, path: Path, name: str) -> None:
        size = _compressed(path)
        if size > MAX_BYTES:
            self.left_out.append(f"{name} ({size / 2**20:.0f} MiB compressed)")
            return
        if self._now.exists() and self._now.stat().st_size + size + 4096 > MAX_BYTES:
            if self._number == MAX_ARCHIVES:
                self.left_out.append(f"{name} ({size / 2**20:.1f} MiB compressed)")
                return
            self._number += 1
        self._folder.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(self._now, "a", zipfile.ZIP_DEFLATED) as archive:
            archive.write(path, name)

    @property
    def _now(self) -> Path:
        return self._folder / f"evidence-{self._number}.zip"


def _compressed(path: Path) -> int:
    """Bytes that a file takes in an archive."""
    with zipfile.ZipFile(io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(path, path.name)
        return archive.infolist()[0].compress_size


def page(
    title: str, command: str, facts: Mapping[str, str], outcomes: Sequence[Outcome], kept: Archives
) -> str:
    """The page as Markdown: every figure beside its truth, what is wrong first, and why what is missing is missing."""
    count = {
        verdict: sum(each.count(verdict) for each in outcomes) for verdict in ("right", "WRONG", "shown")
    }
    lines = [
        f"# Seen on {title}",
        "",
        f"Written by `{command}`. What each check does is written in `benchmarks/gpu_check/checks/`.",
        "",
        f"{count['right']} figures are right, {count['WRONG']} wrong, {count['shown']} shown with no truth beside them.",
        "",
        *_table(("what", ""), facts.items()),
    ]
    wrong = [f"- {each.check.name}: {name}" for each in outcomes for name in each.wrong]
    wrong += [f"- {each.check.name}: {each.reason}" for each in outcomes if each.failed]
    lines += ["## Wrong", "", *wrong, ""] if wrong else []
    for outcome in outcomes:
        lines += _section(outcome)
    files = [f"- `{path.name}`, {path.stat().st_size / 2**20:.1f} MiB" for path in kept.paths]
    lines += ["## Evidence", "", *(files or ["None."]), *(f"- left out: {name}" for name in kept.left_out)]
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
    every = (columns, ["---"] * len(columns), *([_cell(cell) for cell in row] for row in rows))
    return [*(f"| {' | '.join(row)} |" for row in every), ""]


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
