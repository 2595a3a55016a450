"""Waiting for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import pytest

Answer = TypeVar("Answer")

PATIENCE = 60.0
"""Seconds: a start on a machine with two cores that others use as well."""


def wait_for(condition: Callable[[], Answer], what: str, seconds: float = PATIENCE) -> Answer:
    """The first true answer of `condition`. An address where nobody listens yet gives none; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    last: OSError | None = None
    while time.monotonic() < deadline:
        try:
            if answer := condition():
                return answer
        except OSError as error:
            last = error
        time.sleep(0.02)
    pytest.fail(f"waited {seconds:g} s in vain for {what}" + (f": {last}" if last else ""))
