"""Advice as series: which there is, and what it would give back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jaxobs.derive.metrics.catalogue import process_metrics
from jaxobs.derive.metrics.series import Series


def show(advice: Iterable[Mapping[str, Any]], series: Series) -> None:
    """Series of the advice given now; those of advice that no longer holds go."""
    given = [
        (tuple(str(piece.get(key) or "") for key in ("condition", "loop", "function")), piece)
        for piece in advice
    ]
    series.replace(process_metrics.ADVICE_INFO, ((labels, 1.0) for labels, _ in given))
    series.replace(
        process_metrics.ADVICE_SAVES, ((labels, piece.get("saves_ratio")) for labels, piece in given)
    )
    series.replace(
        process_metrics.ADVICE_SAVES_BYTES, ((labels, piece.get("saves_bytes")) for labels, piece in given)
    )
