"""The outcome of a request by OTLP/HTTP's rules (https://opentelemetry.io/docs/specs/otlp/#otlphttp-response)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Literal

from jaxobs.model.clock import NANOSECONDS, wall_now

RETRYABLE = frozenset({429, 502, 503, 504})
PAYLOAD_TOO_LARGE = 413

LONGEST_RETRY_AFTER = 3_600.0
"""Longest wait in seconds that is granted to a receiver. The specification sets no limit."""

Verdict = Literal["delivered", "retryable", "split", "refused"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one request.

    The verdict `split` means that the receiver may take the request in parts. `retry_after` is in seconds, None where
    the receiver named no time. `rejected` counts items of a delivered request that the receiver did not take.
    """

    verdict: Verdict
    reason: str = ""
    retry_after: float | None = None
    rejected: int = 0


def of_response(status: int, phrase: str, headers: Mapping[str, str]) -> Outcome:
    """The outcome of a request that was answered. A redirect is refused: data goes where the user said."""
    if 200 <= status < 300:
        return Outcome("delivered")
    reason = f"HTTP {status} {phrase}".strip()
    if status in RETRYABLE:
        return Outcome("retryable", reason, retry_after(headers.get("Retry-After")))
    return Outcome("split" if status == PAYLOAD_TOO_LARGE else "refused", reason)


def retry_after(value: str | None) -> float | None:
    """Seconds to wait by a `Retry-After` header: a number or a date (RFC 9110, 10.2.3), None if neither."""
    if value is None:
        return None
    try:
        delay = float(value)
    except ValueError:
        try:
            delay = parsedate_to_datetime(value).timestamp() - wall_now() / NANOSECONDS
        except ValueError:
            return None
    return min(max(delay, 0.0), LONGEST_RETRY_AFTER) if math.isfinite(delay) else None
