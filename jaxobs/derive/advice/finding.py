"""One piece of advice before it is ranked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jaxobs.model.figure import figure

HOUR = 3600.0
NO_SECONDS = "it gives back memory, not time"

LEAST_SAVED = 0.03
"""Least share of the wall time that a piece of advice must give back: nearly two minutes of an hour. A loop's shares
rest on sampled device times, which are known to within 5 %: where a device is busy for 60 % of the time, their error
alone is three hundredths of the wall time."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a condition found. `saves_ratio` is a share of wall time; what saves only memory has `saves_bytes`."""

    subject: Mapping[str, str]
    """The place it is about: `loop` or `function`, and whatever else identifies it."""
    sentence: str
    remedy: str
    confidence: float
    saves_ratio: float | None = None
    saves_bytes: float | None = None

    def to_dict(self, condition: str) -> dict[str, Any]:
        an_hour = None if self.saves_ratio is None else self.saves_ratio * HOUR
        document: dict[str, Any] = {
            "condition": condition,
            **self.subject,
            "sentence": _sentence(self.sentence),
            "remedy": _sentence(self.remedy),
            "confidence": self.confidence,
            **figure(self.saves_ratio, NO_SECONDS).under("saves_ratio"),
            **figure(an_hour, NO_SECONDS).under("seconds_per_hour"),
        }
        return document if self.saves_bytes is None else document | {"saves_bytes": self.saves_bytes}


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
