"""Describes values in JAX's cache key as short texts, without calling any code of the user's.

Only values whose type is exactly one of Python's or JAX's own are inspected. Every other object is described by its
type's name: its `__repr__`, `__eq__`, `__hash__` and `__getattr__` are the user's, may be slow, and may raise.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from types import BuiltinFunctionType, FunctionType
from typing import Any

from jaxobs.jax_compat.objects import (
    TEXT_LENGTH,
    clipped,
    device_text,
    is_of,
    mesh_text,
    name_of,
    sharding_text,
)
from jaxobs_plugins.probes.compile.miss_cause import Value

ITEMS_SHOWN = 8
DEPTH = 3
INTEGER_BITS = 256
"""Larger integers are described as `int` alone: writing them out takes time quadratic in their length."""

UNEQUAL = "which equals no other nan"
"""A nan as a static argument hits JAX's cache only with the very same object; each other one is compiled anew."""

CONTAINERS = ((tuple, "(", ")"), (list, "[", "]"), (dict, "{", "}"))


def value_of(thing: Any, depth: int = DEPTH) -> Value:
    """Describe a static argument, an option or a setting, down to containers nested `depth` deep."""
    kind = type(thing)
    value = None
    if type(kind) is type:  # a metaclass may have an `__eq__` of its own
        value = _of_python(thing, kind, depth)
    if value is None and is_of(kind, "jaxlib", "jax", "numpy", "ml_dtypes"):
        value = _of_jax(thing, kind)
    return value or Value(name_of(kind), id(thing))


def _of_python(thing: Any, kind: type, depth: int) -> Value | None:
    if kind in (str, bytes):
        # Texts that were cut are told apart by the hashes of the whole, which for these types are Python's own.
        whole = len(thing) <= TEXT_LENGTH
        return Value(repr(thing)) if whole else Value(f"{thing[:TEXT_LENGTH]!r}…", hash(thing) or 1)
    if kind is int and thing.bit_length() > INTEGER_BITS:
        return Value("int", hash(thing) or 1)
    if kind in (bool, int, float, type(None)):
        return Value(f"nan, {UNEQUAL}", id(thing)) if thing != thing else Value(repr(thing))  # noqa: PLR0124
    if kind in (tuple, list, dict) and depth:
        return _container(thing, depth)
    if kind in (FunctionType, BuiltinFunctionType):
        return Value(clipped(f"function {thing.__name__}"), id(thing))
    return Value(f"class {name_of(thing)}", id(thing)) if kind is type else None


def _container(thing: Any, depth: int) -> Value:
    if type(thing) is dict:
        pairs = [(value_of(key, depth - 1), value_of(item, depth - 1)) for key, item in _first(thing.items())]
        values = list(itertools.chain.from_iterable(pairs))
        texts = [f"{key.text}: {item.text}" for key, item in pairs]
    else:
        values = [value_of(item, depth - 1) for item in _first(thing)]
        texts = [value.text for value in values]
    more = ["…"] if len(thing) > ITEMS_SHOWN else []
    inner = ", ".join(texts + more)
    opening, closing = next((first, last) for kind, first, last in CONTAINERS if kind is type(thing))
    comma = "," if type(thing) is tuple and len(values) == 1 else ""
    text = f"{opening}{inner}{comma}{closing}"
    # One identity mixed from those of all items. Containers with more items than are shown are told apart as objects.
    identities = [value.identity for value in values] + ([id(thing)] if more else [])
    identities += [hash(text)] if len(text) > TEXT_LENGTH else []
    identity = hash(tuple(identities)) or 1 if any(identities) else 0
    return Value(clipped(text), identity)


def _first(items: Iterable[Any]) -> Iterable[Any]:
    return itertools.islice(items, ITEMS_SHOWN)


def _of_jax(thing: Any, kind: type) -> Value | None:
    text = None
    if hasattr(thing, "axis_names") and hasattr(thing, "empty"):
        text = mesh_text(thing)
    elif hasattr(kind, "platform") and hasattr(kind, "device_kind"):
        text = device_text(thing)
    elif hasattr(kind, "device_set"):
        text = sharding_text(thing)
    elif kind.__name__ == "UnspecifiedValue":
        text = "unspecified"
    elif hasattr(kind, "__members__"):  # one of JAX's own enumerations
        text = f"{kind.__name__}.{thing.name}"
    elif kind.__module__ == "numpy" and hasattr(kind, "item") and not hasattr(kind, "__len__"):
        item = thing.item()
        if type(item) is float and item != item:  # noqa: PLR0124
            return Value(f"{kind.__name__}(nan), {UNEQUAL}", id(thing))
        text = clipped(f"{kind.__name__}({item!r})")
    elif kind.__module__ in ("numpy", "numpy.dtypes", "ml_dtypes") and not hasattr(kind, "__array__"):
        text = clipped(str(thing))
    return None if text is None else Value(text)


def dtype_text(dtype: Any) -> str:
    """The element type's name, such as `float32` or `key<fry>`."""
    return str(dtype) if is_of(type(dtype), "numpy", "jax", "ml_dtypes") else name_of(type(dtype))
