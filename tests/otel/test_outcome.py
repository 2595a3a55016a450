from __future__ import annotations

import time
from email.utils import formatdate

import pytest

from jaxobs_plugins.otel.outcome import LONGEST_RETRY_AFTER, of_response, retry_after


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        (200, "delivered"),
        (202, "delivered"),
        (307, "refused"),
        (400, "refused"),
        (401, "refused"),
        (413, "split"),
        (429, "retryable"),
        (500, "refused"),
        (502, "retryable"),
        (503, "retryable"),
        (504, "retryable"),
    ],
)
def test_statuses_mean_what_otlp_says(status: int, verdict: str) -> None:
    assert of_response(status, "", {}).verdict == verdict


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("3", 3.0),
        ("-3", 0.0),
        ("nan", None),
        ("inf", None),
        ("soon", None),
        ("1e300", LONGEST_RETRY_AFTER),
    ],
)
def test_retry_after_in_seconds(value: str | None, seconds: float | None) -> None:
    assert retry_after(value) == seconds


def test_retry_after_as_a_date() -> None:
    seconds = retry_after(formatdate(time.time() + 60, usegmt=True))
    assert seconds is not None
    assert 57 < seconds <= 60
    assert retry_after("Fri, 31 Dec 1999 23:59:59 GMT") == 0.0
