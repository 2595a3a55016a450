"""What cannot be is refused before it changes anything, so that one bad event spoils no figure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from jaxobs.model.events import EVENT_TYPES, Event

REASONS_KEPT = 5
REASON_LETTERS = 200


def require(condition: bool, what: str) -> None:
    """Raises ValueError where an event says what cannot be; the fold counts it as refused."""
    if not condition:
        raise ValueError(what)


def is_amount(value: float | None) -> bool:
    """Whether it is a finite number and not negative."""
    return value is not None and math.isfinite(value) and value >= 0


def require_types(event: Event) -> None:
    """Raises TypeError where a field is not of the type it was declared with: plugins may put anything into one."""
    for value, fits in zip(event, _FIELDS[type(event)], strict=True):
        if not (isinstance(value, fits) if isinstance(fits, tuple) else fits(value)):
            raise TypeError(f"{type(event).__name__} holds {type(value).__name__} where it must not")


class Refusals:
    """Why events and values were refused: the first few reasons, each with how often it was met."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def note(self, reason: str) -> None:
        """One more was refused."""
        reason = reason[:REASON_LETTERS]
        if reason in self._counts or len(self._counts) < REASONS_KEPT:
            self._counts[reason] += 1

    def reasons(self) -> list[str]:
        """The most frequent first: `3 × Recorded: …`."""
        return [f"{count:,} × {reason}" for reason, count in self._counts.most_common()]


def described(event: object, error: Exception) -> str:
    """Which event an error is of, and as far as that can be had what it says."""
    try:
        return f"{type(event).__name__}: {str(error) or type(error).__name__}"
    except Exception:  # noqa: BLE001  # what it says may be left to an object of a plugin's
        return type(event).__name__


def _fits(hint: Any) -> tuple[type, ...] | Callable[[Any], bool]:
    """What `isinstance` takes for an annotation of an event's field, or a function that looks into the value."""
    parts = get_args(hint)
    if get_origin(hint) is tuple and parts[-1] is Ellipsis:
        inside = _test(parts[0])
        return lambda value: isinstance(value, tuple) and all(map(inside, value))
    if get_origin(hint) is tuple or hasattr(hint, "_fields"):
        tests = [_test(part) for part in (parts or get_type_hints(hint).values())]
        return lambda value: (
            isinstance(value, tuple)
            and len(value) == len(tests)
            and all(test(item) for test, item in zip(tests, value, strict=True))
        )
    if isinstance(hint, UnionType):
        tests = [_test(part) for part in parts]
        kinds = [_fits(part) for part in parts]
        if all(isinstance(kind, tuple) for kind in kinds):
            return tuple(one for kind in kinds if isinstance(kind, tuple) for one in kind)
        return lambda value: any(test(value) for test in tests)
    if hint is NoneType:
        return (NoneType,)
    return (float, int) if hint is float else (hint,)


def _test(hint: Any) -> Callable[[Any], bool]:
    fits = _fits(hint)
    return (lambda value: isinstance(value, fits)) if isinstance(fits, tuple) else fits


_FIELDS = {
    event_type: tuple(_fits(hint) for hint in get_type_hints(event_type).values())
    for event_type in EVENT_TYPES
}
