"""Figures, each a value or the reason why there is none, and views, frozen dataclasses of figures, as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
REASON_WHERE_ABSENT: Final = {"reason": "where absent"}
"""Metadata of a view's field whose reason is in the document only where the value is absent."""

ATOMS: Final = frozenset({type(None), bool, int, float, str})


@dataclass(frozen=True, slots=True)
class Figure(Generic[T_co]):
    """A value with a reason, which says why the value is None, or qualifies it: that it is a lower bound, say."""

    value: T_co | None
    reason: str | None = None

    def under(self, name: str) -> dict[str, Any]:
        """The entries of a document: the value under its name, and the reason beside it."""
        return {name: plain(self.value), f"{name}_reason": self.reason}


def figure(value: T | None, why_absent: str | None) -> Figure[T]:
    """A figure that has the reason only where there is no value."""
    return Figure(value) if value is not None else Figure(None, why_absent)


def plain(value: Any) -> Any:
    """A value as plain data for JSON: views and mappings of them become dictionaries. Plain values are not copied."""
    if type(value) in ATOMS:
        return value
    if isinstance(value, dict):
        return _mapping(value)
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if hasattr(value, "__dataclass_fields__"):
        return _view(value)
    return _mapping(value) if isinstance(value, Mapping) else value


def _view(view: Any) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for name, reason, always in _names(view.__class__):
        shown = getattr(view, name)
        value = shown.value if type(shown) is Figure else shown
        document[name] = value if type(value) in ATOMS else plain(value)
        if type(shown) is Figure and (always or value is None):
            document[reason] = shown.reason
    return document


@cache  # finding them takes longer than writing the view
def _names(kind: type) -> tuple[tuple[str, str, bool], ...]:
    """For each field of a view, its name, the name of its reason, and whether the reason is always present."""
    return tuple((each.name, f"{each.name}_reason", "reason" not in each.metadata) for each in fields(kind))


def _mapping(values: Mapping[Any, Any]) -> dict[Any, Any]:
    """A mapping as plain data; a figure's reason is added only where there is one."""
    document = {}
    for name, shown in values.items():
        value = shown.value if type(shown) is Figure else shown
        document[name] = value if type(value) in ATOMS else plain(value)
        if type(shown) is Figure and shown.reason is not None:
            document[f"{name}_reason"] = shown.reason
    return document


class Rows:
    """Writes the rows of a table, and reuses the rows of views that were in it before: snapshots share them."""

    def __init__(self) -> None:
        self._written: dict[int, tuple[object, Any]] = {}

    def written(self, views: Iterable[object]) -> list[Any]:
        before = self._written
        # Each view is kept alive with its row, so that no other object can get its id.
        kept = [before.get(id(view)) or (view, plain(view)) for view in views]
        self._written = {id(row[0]): row for row in kept}
        return [row for _, row in kept]
