"""What a comparison says: findings in words with their cause, and rows of figures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from jaxobs.report.comparison.noise import RUN_TO_RUN, Change, factor


class Cause(StrEnum):
    """Why a run may be slower or faster than another."""

    MODEL = "model"
    BATCH = "batch"
    PRECISION = "precision"
    INPUT = "input"
    RECOMPILE = "recompile"
    LOAD = "load"
    SETTINGS = "settings"
    VERSIONS = "versions"
    DEVICES = "devices"


class Effect(StrEnum):
    """Whether a finding by itself makes the second run slower or faster than the first; `open`: it may do either."""

    SLOWER = "slower"
    FASTER = "faster"
    OPEN = "open"

    @classmethod
    def of(cls, more: bool) -> Effect:
        """`slower` where there is more of what takes time, `faster` where there is less."""
        return cls.SLOWER if more else cls.FASTER


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference, in a sentence that names the figures of both runs. `subject` is a loop, a function or a setting."""

    cause: Cause
    subject: str
    effect: Effect
    sentence: str


@dataclass(frozen=True, slots=True)
class Row:
    """A figure of both runs as text. `verdict` is `slower`, `within the noise` and the like, or why there is none."""

    what: str
    before: str
    after: str
    change: str = ""
    verdict: str = ""


@dataclass(frozen=True, slots=True)
class StepTime:
    """A loop's step time in both runs: the median over stretches, in seconds, and the change of its logarithm."""

    loop: str
    before: float | None
    after: float | None
    change: Change | None
    reason: str = ""
    """Why `change` is None, where it is."""

    @property
    def verdict(self) -> str:
        """The verdict: `slower`, `faster`, `within the noise` or `cannot be told`."""
        if self.change is None:
            return "cannot be told"
        if not self.change.beyond(math.log1p(RUN_TO_RUN)):
            return "within the noise"
        return "slower" if self.change.estimate > 0 else "faster"

    def to_dict(self) -> dict[str, Any]:
        """Plain data. A factor that is not known is None, with its reason."""
        change = self.change
        return {
            "loop": self.loop,
            "before_seconds": self.before,
            "after_seconds": self.after,
            "factor": None if change is None else factor(change.estimate),
            "factor_low": None if change is None else factor(change.low),
            "factor_high": None if change is None else factor(change.high),
            "factor_reason": self.reason or None,
            "verdict": self.verdict,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """The whole comparison of two records. `print(comparison)` shows it, and so does a notebook."""

    before: str
    after: str
    headers: tuple[Row, ...]
    step_times: tuple[StepTime, ...]
    findings: tuple[Finding, ...]
    tables: Mapping[str, tuple[Row, ...]] = field(default_factory=dict)
    not_compared: tuple[str, ...] = ()
    components: Mapping[str, tuple[Mapping[str, float], Mapping[str, float]]] = field(default_factory=dict)
    """By loop, the seconds per step of each component in both runs, which are drawn as bars."""

    def __str__(self) -> str:
        from jaxobs.report.comparison.text import text

        return text(self)

    def _repr_html_(self) -> str:
        from jaxobs.report.notebook import comparison_html

        return comparison_html(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for programs: step times with their factors, findings and tables."""
        return {
            "before": self.before,
            "after": self.after,
            "step_times": [time.to_dict() for time in self.step_times],
            "findings": [asdict(finding) for finding in self.findings],
            "tables": {title: [asdict(row) for row in rows] for title, rows in self.tables.items()},
            "not_compared": list(self.not_compared),
        }
