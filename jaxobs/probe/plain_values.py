"""Names and numbers as the user gives them, made plain: only plain types travel to the agent.

None of these raises: what was meant for a dashboard must not stop a training run.
"""

from __future__ import annotations

from typing import Any


def as_name(name: Any) -> str:
    """A loop's or phase's name as plain text, also of a member of a StrEnum: only plain types travel to the agent."""
    if type(name) is str:
        return name
    try:
        return str.__str__(name) if isinstance(name, str) else str(name)
    except Exception:  # noqa: BLE001  # a wrong name must not stop a training run
        return type(name).__name__


def plain_number(value: Any) -> float | None:
    """Examples or tokens as a plain number. None for what is none, and for a JAX array: reading it would wait."""
    if value is None or type(value) is int or type(value) is float:
        return value
    try:
        return None if hasattr(value, "is_ready") else float(value)
    except Exception:  # noqa: BLE001  # a number of the user's own type may raise anything
        return None


def amount(count: Any, item: Any) -> float | None:
    """What the user's function says of an item; None where it fails: a wrong count must not stop a training run."""
    try:
        return plain_number(count(item))
    except Exception:  # noqa: BLE001  # the user's function may raise anything
        return None
