"""Limits on what may become a time series: how long a label is, and how many series a metric keeps."""

from __future__ import annotations

LABEL_LENGTH = 200
"""Characters a label keeps. Prometheus has no limit of its own; names of functions and operations stay below it."""

OTHER = "__other__"
"""The label value under which counters of series beyond the limit are summed."""


def clean_label(value: object) -> str:
    """A label value that every exporter can carry: text without surrogates or NUL, at most LABEL_LENGTH characters."""
    text = value if isinstance(value, str) else str(value)
    text = text.encode("utf-8", "replace").decode("utf-8").replace("\x00", "�")
    return text if len(text) <= LABEL_LENGTH else text[: LABEL_LENGTH - 1] + "…"
