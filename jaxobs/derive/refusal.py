"""What cannot be is refused before it changes anything, so that one bad event spoils no figure."""

from __future__ import annotations

import math


def require(condition: bool, what: str) -> None:
    """Raises ValueError where an event says what cannot be; the fold counts it as refused."""
    if not condition:
        raise ValueError(what)


def is_amount(value: float | None) -> bool:
    """Whether it is a finite number and not negative."""
    return value is not None and math.isfinite(value) and value >= 0
