"""Short texts for objects that may be of the user's types, without calling a method of theirs.

Only objects whose type is exactly one of Python's or JAX's own are read. For every other object the text is the name of
its type: its `__repr__`, `__eq__`, `__hash__` and `__getattr__` are the user's, may be slow, and may raise.
"""

from __future__ import annotations

from typing import Any

TEXT_LENGTH = 120
"""Most characters of a value's text, of which a label shows two, the old and the new; it holds 200."""


def plain(thing: Any) -> str:
    """The `repr` of a dictionary's key or an axis's name if it is text, a number or None, else the name of its type."""
    return repr(thing)[:TEXT_LENGTH] if type(thing) in (str, int, bool, type(None)) else name_of(type(thing))


def bare(thing: Any) -> str:
    """The text that `plain` gives, but strings without quotes."""
    return clipped(thing) if type(thing) is str else plain(thing)


def name_of(kind: type) -> str:
    """A type's own name, read through `type` itself, because a metaclass may define `__name__`."""
    return clipped(type.__dict__["__name__"].__get__(kind))


def is_of(kind: type, *packages: str) -> bool:
    """Whether a type is defined in one of these packages; a user's subclass of such a type is not."""
    module = type.__dict__["__module__"].__get__(kind)
    return type(module) is str and module.partition(".")[0] in packages


def clipped(text: str) -> str:
    """The text, cut to at most TEXT_LENGTH characters."""
    return text if len(text) <= TEXT_LENGTH else f"{text[: TEXT_LENGTH - 1]}…"
