"""Short texts of objects that may be the user's, without calling anything of theirs.

Only what has exactly a type of Python's or JAX's own is looked into. Of every other object the text is its type's name:
its `__repr__`, `__eq__`, `__hash__` and `__getattr__` are the user's, may be slow, and may raise.
"""

from __future__ import annotations

from typing import Any

TEXT_LENGTH = 120
"""Characters of a value that are kept: a label holds 200, and the old and the new one stand beside each other."""


def plain(thing: Any) -> str:
    """A dictionary's key or an axis's name: as it is where it is text or a number, else its type."""
    return repr(thing)[:TEXT_LENGTH] if type(thing) in (str, int, bool, type(None)) else name_of(type(thing))


def bare(thing: Any) -> str:
    """What `plain` gives, but text without quotes."""
    return clipped(thing) if type(thing) is str else plain(thing)


def name_of(kind: type) -> str:
    """A type's own name, asked of `type` itself: a metaclass may answer otherwise."""
    return clipped(type.__dict__["__name__"].__get__(kind))


def is_of(kind: type, *packages: str) -> bool:
    """Whether a type was defined by one of these packages, not derived from one of theirs by the user."""
    module = type.__dict__["__module__"].__get__(kind)
    return type(module) is str and module.partition(".")[0] in packages


def clipped(text: str) -> str:
    """At most TEXT_LENGTH characters."""
    return text if len(text) <= TEXT_LENGTH else f"{text[: TEXT_LENGTH - 1]}…"
