"""Refuses impossible events and values before they change any state, so that one bad event spoils no figure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from jaxobs.model.events import EVENT_TYPES, Event

REASONS_KEPT = 5
REASON_LETTERS = 200


def require(condition: bool, what: str) -> None:
    """Raise ValueError unless `condition` holds; the fold then counts the event as refused."""
    if not condition:
        raise ValueError(what)


def is_amount(value: float | None) -> bool:
    """Whether the value is a finite number and not negative."""
    return value is not None and math.isfinite(value) and value >= 0


def require_types(event: Event) -> None:
    """Raise TypeError where a field does not have its declared type: plugins may put anything into one."""
    for value, test in zip(event, _TESTS[type(event)], strict=True):
        if not test(value):
            raise TypeError(f"{type(event).__name__} holds {type(value).__name__} where it must not")


class Refusals:
    """The first few reasons why events and values were refused, each with how often it occurred."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self.values = 0
        """Values that were refused in events that were accepted otherwise."""

    def refuse(self, reason: str) -> None:
        """Count a value that is refused."""
        self.values += 1
        self.note(reason)

    def note(self, reason: str) -> None:
        reason = reason[:REASON_LETTERS]
        if reason in self._counts or len(self._counts) < REASONS_KEPT:
            self._counts[reason] += 1

    def reasons(self) -> list[str]:
        """The reasons with their counts, the most frequent first: `3 × Recorded: …`."""
        return [f"{count:,} × {reason}" for reason, count in self._counts.most_common()]


def described(event: object, error: Exception) -> str:
    """The type of the event that caused an error, with the error's message if it can be read."""
    try:
        return f"{type(event).__name__}: {str(error) or type(error).__name__}"
    except Exception:  # noqa: BLE001  # the message may be formatted by an object of a plugin
        return type(event).__name__


Test = Callable[[Any], bool]


def _test(hint: Any) -> Test:
    """A test of whether a value fits an annotation, including everything nested in it."""
    parts = get_args(hint)
    if isinstance(hint, UnionType):
        tests = [_test(part) for part in parts]
        return lambda value: any(test(value) for test in tests)
    if get_origin(hint) is tuple and parts[-1] is Ellipsis:
        inside = _test(parts[0])
        return lambda value: isinstance(value, tuple) and all(map(inside, value))
    if get_origin(hint) is tuple or hasattr(hint, "_fields"):
        each = [_test(part) for part in (parts or get_type_hints(hint).values())]
        return lambda value: (
            isinstance(value, tuple)
            and len(value) == len(each)
            and all(test(item) for test, item in zip(each, value, strict=True))
        )
    kinds = (float, int) if hint is float else hint
    return lambda value: isinstance(value, kinds)


_TESTS = {kind: [_test(hint) for hint in get_type_hints(kind).values()] for kind in EVENT_TYPES}
