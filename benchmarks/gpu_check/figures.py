"""Figures beside their truths: what a check says, and whether it is right."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

Verdict = Literal["right", "WRONG", "shown", "not measured"]
Value = float | str | bool | None


@dataclass(frozen=True)
class Figure:
    """One figure of a check. Exactly one of `relative`, `absolute` and `between` is given where there is a truth.

    Attributes:
        check: Name of the check that said it.
        name: What it is.
        found: What jaxobs says; None where it is not known, and `reason` says why.
        truth: What it must be, from a source that is not jaxobs.
        relative: Largest distance from the truth as a share of it.
        absolute: Largest distance from the truth in the unit of the figure.
        between: The smallest and largest value that are right.
        unit: `s`, `FLOP/s`, …; empty for ratios, counts and texts.
        source: Where the truth comes from.
        reason: Why there is no figure.
    """

    check: str
    name: str
    found: Value = None
    truth: Value = None
    relative: float | None = None
    absolute: float | None = None
    between: tuple[float, float] | None = None
    unit: str = ""
    source: str = ""
    reason: str = ""

    @property
    def verdict(self) -> Verdict:
        """`shown` where there is nothing to hold the figure against."""
        if self.found is None:
            return "not measured"
        if self.between is not None:
            return _verdict(_is_between(self.found, *self.between))
        if self.truth is None:
            return "shown"
        if isinstance(self.truth, str | bool) or isinstance(self.found, str | bool):
            return _verdict(self.found == self.truth)
        allowed = self.absolute if self.absolute is not None else (self.relative or 0.0) * abs(self.truth)
        return _verdict(abs(self.found - self.truth) <= allowed)


def _is_between(found: Value, low: float, high: float) -> bool:
    return isinstance(found, int | float) and math.isfinite(found) and low <= found <= high


def _verdict(right: bool) -> Verdict:
    return "right" if right else "WRONG"


class Findings:
    """What a check writes, line by line: a check that is stopped at its deadline loses nothing that it had said."""

    def __init__(self, check: str, folder: Path, platform: str, device_kind: str) -> None:
        """`folder` is the check's own; `platform` and `device_kind` are JAX's."""
        self.name = check
        self.folder = folder
        self.platform = platform
        self.device_kind = device_kind
        self._file = folder / FIGURES

    @property
    def on_gpu(self) -> bool:
        """Whether sizes are those of a GPU; small ones elsewhere, so that the command can be tried."""
        return self.platform == "gpu"

    def figure(
        self, name: str, found: Value, truth: Value = None, *, relative: float | None = None,
        absolute: float | None = None, between: tuple[float, float] | None = None, unit: str = "",
        source: str = "", reason: str | None = None,
    ) -> None:  # fmt: skip
        """Say a figure; with `found` None and its reason, that there is none."""
        self._say(
            Figure(
                self.name, name, _plain(found), _plain(truth), relative, absolute, between, unit, source,
                "" if found is not None else reason or "no reason was given",
            )
        )  # fmt: skip

    def unmeasured(self, name: str, reason: str) -> None:
        """Say that a figure could not be had, and why."""
        self.figure(name, None, reason=reason)

    def note(self, text: str) -> None:
        """Say a sentence for the results page."""
        self._write({"note": text})

    def evidence(self, name: str) -> Path:
        """Where to write a file that is kept beside the results page."""
        path = self.folder / EVIDENCE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def keep_json(self, name: str, document: Any) -> None:
        """Keep plain data as evidence."""
        self.evidence(name).write_text(json.dumps(document, indent=1, default=str), encoding="utf-8")

    def _say(self, figure: Figure) -> None:
        self._write({"figure": asdict(figure)})

    def _write(self, line: dict[str, Any]) -> None:
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


FIGURES, EVIDENCE = "figures.jsonl", "evidence"


def said_in(folder: Path) -> tuple[list[Figure], list[str]]:
    """Figures and notes that a check wrote; a line that is cut, because it was stopped, is left out."""
    figures, notes = [], []
    for line in _lines(folder / FIGURES):
        if "figure" in line:
            told = line["figure"]
            between = tuple(told["between"]) if told["between"] else None
            figures.append(Figure(**{**told, "between": between}))
        else:
            notes.append(line["note"])
    return figures, notes


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue


def _plain(value: Any) -> Value:
    """Numbers of NumPy and JAX as Python's; NaN and infinities, which are no figures, as text."""
    if value is None or isinstance(value, str | bool):
        return value
    number = float(value)
    return number if math.isfinite(number) else str(number)
