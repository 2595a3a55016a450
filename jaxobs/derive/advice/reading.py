"""Reading a document that may lack anything: what is not there, or makes no sense, is None."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

Document = Mapping[str, Any]


def value(source: Any, *path: str) -> Any:
    """What lies at the end of a path of keys; None where it does not lead anywhere."""
    for key in path:
        if type(source) is not dict and not isinstance(
            source, Mapping
        ):  # the latter takes five times as long
            return None
        source = source.get(key)
    return source


def number(source: Any, *path: str) -> float | None:
    """A finite number of at least 0; None for anything else."""
    found = value(source, *path)
    if (
        found is None
        or isinstance(found, bool)
        or not isinstance(found, int | float)
        or not 0 <= found <= LARGEST
    ):
        return None
    return float(found)


def ratio(source: Any, *path: str) -> float | None:
    """A number from 0 to 1; None for anything else."""
    found = number(source, *path)
    return found if found is not None and found <= 1 else None


def text(source: Any, *path: str) -> str | None:
    """A string with something in it; None for anything else."""
    found = value(source, *path)
    return found if isinstance(found, str) and found else None


def rows(source: Any, *path: str) -> list[Document]:
    """The mappings of a list; none where there is no list."""
    found = value(source, *path)
    return [row for row in found if isinstance(row, Mapping)] if isinstance(found, list | tuple) else []


def named(source: Any, *path: str) -> dict[str, Document]:
    """The mappings of a mapping, by name; none where there is no mapping."""
    found = value(source, *path)
    if not isinstance(found, Mapping):
        return {}
    return {str(name): part for name, part in found.items() if isinstance(part, Mapping)}


def numbers(source: Any, *path: str) -> dict[str, float]:
    """The numbers of a mapping, by name; what is no number is left out."""
    found = value(source, *path)
    if not isinstance(found, Mapping):
        return {}
    known = {str(name): number(found, name) for name in found}
    return {name: amount for name, amount in known.items() if amount is not None}


LARGEST = math.sqrt(1.7e308)
"""Products of two such numbers are still finite; nothing that is counted or timed comes near it."""
