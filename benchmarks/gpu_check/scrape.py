"""What the metrics server of a run says: its page, and single series of it."""

from __future__ import annotations

import urllib.request
from typing import NamedTuple

PATIENCE_SECONDS = 10.0


class Series(NamedTuple):
    """One line of a page of metrics."""

    name: str
    labels: dict[str, str]
    value: float


def page_at(address: str) -> str:
    """The page in Prometheus's text format. Raises OSError where it cannot be had."""
    request = urllib.request.Request(address, headers={"Accept": "text/plain; version=0.0.4"})
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
        text: str = answer.read().decode()
    return text


def series_of(page: str) -> list[Series]:
    """Every sample of a page, by prometheus-client's own parser."""
    from prometheus_client.parser import text_string_to_metric_families

    return [
        Series(sample.name, dict(sample.labels), float(sample.value))
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    ]


def value_of(page: list[Series], name: str, **labels: str) -> float | None:
    """The value of the first series with that name and those labels; None where there is none."""
    return next(
        (one.value for one in page if one.name == name and labels.items() <= one.labels.items()), None
    )  # fmt: skip
