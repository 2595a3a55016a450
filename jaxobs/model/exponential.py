"""Buckets whose bounds grow by one factor, as OTLP's exponential and Prometheus's native histograms have them."""

from __future__ import annotations

import math
from typing import Final

SCALE: Final = 3
"""Bounds grow by 2^(1/2^SCALE), 9 %: a quantile between two of them is right to 4.5 %, and the 160 buckets that
OpenTelemetry's SDK keeps by default reach from 1 ms to 17 min
(https://opentelemetry.io/docs/specs/otel/metrics/data-model/#exponentialhistogram)."""

FARTHEST: Final = 30 << SCALE
"""Values beyond 2^30 or below 2^-30 (34 years, and a nanosecond) share the outermost buckets."""


def bucket_index(value: float) -> int:
    """The bucket of a positive value: index i holds what is above 2^(i/2^SCALE) and at most 2^((i+1)/2^SCALE)."""
    return max(-FARTHEST, min(FARTHEST, math.ceil(math.log2(value) * (1 << SCALE)) - 1))


def upper_bound(index: int) -> float:
    """The largest value of a bucket."""
    return math.inf if index >= FARTHEST else 2.0 ** ((index + 1) / (1 << SCALE))
