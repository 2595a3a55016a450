"""What cannot be is refused before it changes anything, so that one bad event spoils no figure."""

from __future__ import annotations

import math
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from jaxobs.model.events import EVENT_TYPES, Event


def require(condition: bool, what: str) -> None:
    """Raises ValueError where an event says what cannot be; the fold counts it as refused."""
    if not condition:
        raise ValueError(what)


def is_amount(value: float | None) -> bool:
    """Whether it is a finite number and not negative."""
    return value is not None and math.isfinite(value) and value >= 0


def require_types(event: Event) -> None:
    """Raises TypeError where a field is not of the type it was declared with: plugins may put anything into one."""
    for value, allowed in zip(event, _FIELDS[type(event)], strict=True):
        if not isinstance(value, allowed):
            raise TypeError(f"{type(event).__name__} holds {type(value).__name__} where {allowed} belongs")


def _classes(hint: Any) -> tuple[type, ...]:
    """What `isinstance` takes for an annotation of an event's field."""
    if isinstance(hint, UnionType) or (get_origin(hint) is not None and get_origin(hint) is not tuple):
        return tuple(kind for part in get_args(hint) for kind in _classes(part))
    if get_origin(hint) is tuple:
        return (tuple,)
    if hint is None or hint is NoneType:
        return (NoneType,)
    return (float, int) if hint is float else (hint,)


_FIELDS = {
    event_type: tuple(_classes(hint) for hint in get_type_hints(event_type).values())
    for event_type in EVENT_TYPES
}
