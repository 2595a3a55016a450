"""Converts the user's names and numbers to plain types, because no others can be sent to the agent.

A wrong value that was meant for a dashboard must not stop a training run: it raises only where it can never be a
number, and only before the first step has ended.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from numbers import Real
from typing import Any

from jaxobs.plugin.guard import Suppressed
from jaxobs.vocabulary.text import cut_name


def as_name(name: Any) -> str:
    """The name of a loop, a phase or a recorded value as a plain `str` of bounded length.

    It may be a member of a StrEnum.
    """
    if type(name) is str:
        return cut_name(name)
    with Suppressed(Exception):  # a wrong name must not stop a training run
        return cut_name(str.__str__(name) if isinstance(name, str) else str(name))
    return type(name).__name__


def given_amount(word: str, value: Any, steps_ended: Callable[[], int]) -> float | None:
    """The user's examples, tokens or FLOPs as `plain_amount` gives them.

    Raises TypeError for what is no number at all, at the call that was given it and not later in the loop. Once a step
    has ended it is NaN instead: an evaluation that begins after hours with a wrong argument must not end the training.
    """
    kind = type(value)
    is_number = value is None or hasattr(kind, "__float__") or hasattr(kind, "__index__")
    if not is_number and not hasattr(kind, "is_ready") and not steps_ended():
        raise TypeError(f"{word}= takes a number, not an object of type {kind.__name__!r}")
    return plain_amount(value)


def given_timeout(call: str, value: Any) -> float:
    """Seconds to wait at most. Raises TypeError for no number, ValueError for a negative, infinite or too large one."""
    if not isinstance(value, Real):
        raise TypeError(
            f"{call}(timeout=…) takes a number of seconds, not an object of type {type(value).__name__!r}"
        )
    seconds = float(value)
    if not 0 <= seconds <= threading.TIMEOUT_MAX:
        raise ValueError(f"{call}(timeout={seconds:g}): give seconds from 0 on, and a finite number of them")
    return seconds


def amount(count: Any, item: Any) -> float | None:
    """What the user's function returns for an item, as `plain_amount` gives it; NaN where it raises."""
    with Suppressed(Exception):  # the user's function may raise anything
        return plain_amount(count(item))
    return math.nan


def plain_amount(value: Any) -> float | None:
    """A plain number, None for None, and NaN, which is refused and counted later, for anything else.

    A JAX array is NaN as well: reading it would wait for the device.
    """
    if value is None or type(value) is int or type(value) is float:
        return value
    with Suppressed(Exception):  # a number of the user's own type may raise anything
        return math.nan if hasattr(value, "is_ready") or isinstance(value, str) else float(value)
    return math.nan
