from __future__ import annotations

import pytest

from jaxobs_plugins.otel.delivery import MAX_RETRY_AFTER, outcome_of


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
    assert outcome_of(status, "", {}).verdict == verdict


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("", None),
        ("Fri, 31 Dec 1999 23:59:59 GMT", None),
        ("3", 3.0),
        ("-3", 0.0),
        ("nan", None),
        ("inf", None),
        ("soon", None),
        ("1e300", MAX_RETRY_AFTER),
    ],
)
def test_retry_after_in_seconds(value: str, seconds: float | None) -> None:
    assert outcome_of(503, "", {"Retry-After": value}).retry_after == seconds


@pytest.mark.parametrize(
    ("kind", "answer", "said"),
    [
        ("text/plain; charset=utf-8", b"out of bounds\n", ": out of bounds"),
        ("application/json", b'{"code":3,"message":"no tenant"}', ': {"code":3,"message":"no tenant"}'),
        ("application/x-protobuf", b"\x08\x03\x12\x09no tenant", ": no tenant"),
        ("text/html", b"<html><h1>400</h1></html>", ""),
        ("application/x-protobuf", b"\x08\x03", ""),
        ("", b"", ""),
    ],
)
def test_what_the_receiver_says_is_the_reason(kind: str, answer: bytes, said: str) -> None:
    outcome = outcome_of(400, "Bad Request", {"Content-Type": kind}, answer)
    assert outcome.reason == f"HTTP 400 Bad Request{said}"
