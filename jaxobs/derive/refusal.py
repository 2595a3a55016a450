"""Refuses impossible events and values before they change any state, so that one bad event spoils no figure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from types import NoneType, UnionType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from jaxobs.model.events import EVENT_TYPES, Event

REASONS_KEPT = 5
REASON_LETTERS = 200

KINDS_KEPT = 100
"""Combinations of field classes remembered for each event type. A field such as an amount may be a float in one event
and an int in the next, but no program sends as many combinations as this."""


def require(condition: bool, what: str) -> None:
    """Raise ValueError unless `condition` holds; the fold then counts the event as refused."""
    if not condition:
        raise ValueError(what)


def is_amount(value: float | None) -> bool:
    """Whether the value is a finite number and not negative."""
    return value is not None and math.isfinite(value) and value >= 0


def require_types(event: Event) -> None:
    """Raise TypeError where a field does not have its declared type: plugins may put anything into one."""
    fields, seen = _FIELDS[type(event)], _SEEN[type(event)]
    kinds = tuple(map(type, event))
    if kinds not in seen:
        for value, fits in zip(event, fields.kinds, strict=True):
            if not isinstance(value, fits):
                raise _wrong(event, value)
        if len(seen) < KINDS_KEPT:
            seen.add(kinds)
    for at, test in fields.contents:
        if not test(event[at]):
            raise _wrong(event, event[at])


def is_of_types(event: Event) -> bool:
    """Whether each field of the event has its declared type."""
    try:
        require_types(event)
    except TypeError:
        return False
    return True


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


def _wrong(event: Event, value: object) -> TypeError:
    return TypeError(f"{type(event).__name__} holds {type(value).__name__} where it must not")


class _Fields(NamedTuple):
    """What the fields of an event type may hold: classes for every field, and a test for each field with contents."""

    kinds: tuple[tuple[type, ...], ...]
    contents: tuple[tuple[int, Callable[[Any], bool]], ...]


def _kinds(hint: Any) -> tuple[type, ...]:
    """The classes that the annotation of an event's field allows."""
    if isinstance(hint, UnionType):
        return tuple(kind for part in get_args(hint) for kind in _kinds(part))
    if get_origin(hint) is tuple or hasattr(hint, "_fields"):
        return (tuple,)
    return (float, int) if hint is float else (hint,)


def _test(hint: Any) -> Callable[[Any], bool]:
    """A test of whether a value fits an annotation, including everything nested in it."""
    parts = get_args(hint)
    if isinstance(hint, UnionType):
        tests = [_test(part) for part in parts if part is not NoneType]
        if NoneType in parts:
            return lambda value: value is None or any(test(value) for test in tests)
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
    kinds = _kinds(hint)
    return lambda value: isinstance(value, kinds)


def _fields(event_type: type[Event]) -> _Fields:
    hints = list(get_type_hints(event_type).values())
    kinds = tuple(map(_kinds, hints))
    return _Fields(kinds, tuple((at, _test(hint)) for at, hint in enumerate(hints) if tuple in kinds[at]))


_FIELDS = {event_type: _fields(event_type) for event_type in EVENT_TYPES}
_SEEN: dict[type, set[tuple[type, ...]]] = {event_type: set() for event_type in EVENT_TYPES}
"""Combinations of field classes that passed the check, by event type: most of the many events a second are alike."""
