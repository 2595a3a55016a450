"""Names and numbers as the user gives them, made plain: only plain types travel to the agent.

What was meant for a dashboard must not stop a training run: only what is of no use from the first is refused, and only
before the first step has ended.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any


def as_name(name: Any) -> str:
    """A loop's or phase's name as plain text, also of a member of a StrEnum: only plain types travel to the agent."""
    if type(name) is str:
        return name
    try:
        return str.__str__(name) if isinstance(name, str) else str(name)
    except Exception:  # noqa: BLE001  # a wrong name must not stop a training run
        return type(name).__name__


def given_amount(word: str, value: Any, steps_ended: Callable[[], int]) -> float | None:
    """Examples, tokens or FLOPs as the user gave them, as `plain_amount`.

    Raises TypeError for what is no number at all: where it is given, and not somewhere in the loop. Not when a step has
    ended: an evaluation that begins after hours with a wrong word must not end them, so that is NaN too.
    """
    kind = type(value)
    is_number = value is None or hasattr(kind, "__float__") or hasattr(kind, "__index__")
    if not is_number and not hasattr(kind, "is_ready") and not steps_ended():
        raise TypeError(f"{word}= takes a number, not an object of type {kind.__name__!r}")
    return plain_amount(value)


def amount(count: Any, item: Any) -> float | None:
    """What the user's function says of an item, as `plain_amount`; NaN where it raises."""
    try:
        return plain_amount(count(item))
    except Exception:  # noqa: BLE001  # the user's function may raise anything
        return math.nan


def plain_amount(value: Any) -> float | None:
    """A plain number; None for None. NaN, which is refused and counted, for what is no number now.

    So it is for a JAX array: reading it would wait for the device.
    """
    if value is None or type(value) is int or type(value) is float:
        return value
    try:
        return math.nan if hasattr(value, "is_ready") or isinstance(value, str) else float(value)
    except Exception:  # noqa: BLE001  # a number of the user's own type may raise anything
        return math.nan
