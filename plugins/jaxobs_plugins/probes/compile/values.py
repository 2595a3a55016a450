"""Describes values and functions in JAX's cache key as short texts, without calling any code of the user's.

Only values whose type is exactly one of Python's or JAX's own are inspected. Every other object is described by its
type's name: its `__repr__`, `__eq__`, `__hash__` and `__getattr__` are the user's, may be slow, and may raise.

A function is identified by its source, because the function object may be new at each compile.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from jaxobs.jax_compat.objects import (
    TEXT_LENGTH,
    clipped,
    device_text,
    is_of,
    mesh_text,
    name_of,
    own_attributes,
    sharding_text,
)
from jaxobs_plugins.probes.compile.miss_cause import Value

ITEMS_SHOWN = 8
DEPTH = 3
INTEGER_BITS = 256
"""Larger integers are described as `int` alone: writing them out takes time quadratic in their length."""

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
        # A nan equals no other, so JAX's cache knows only the very same object.
        return Value(repr(thing), id(thing) if thing != thing else 0)  # noqa: PLR0124
    if kind in (tuple, list, dict) and depth:
        return _container(thing, depth)
    if kind in (FunctionType, BuiltinFunctionType):
        return Value(clipped(f"function {thing.__name__}"), id(thing))
    return Value(f"class {name_of(thing)}", id(thing)) if kind is type else None


def _container(thing: Any, depth: int) -> Value:
    is_dict = type(thing) is dict
    items = itertools.islice(thing.items() if is_dict else thing, ITEMS_SHOWN)
    described = [[value_of(part, depth - 1) for part in (item if is_dict else (item,))] for item in items]
    texts = [": ".join(value.text for value in values) for values in described]
    # One identity mixed from those of all items. Containers with more items than are shown are told apart as objects.
    identities = [value.identity for values in described for value in values]
    if len(thing) > ITEMS_SHOWN:
        texts.append("…")
        identities.append(id(thing))
    opening, closing = next((first, last) for kind, first, last in CONTAINERS if kind is type(thing))
    comma = "," if type(thing) is tuple and len(thing) == 1 else ""
    text = f"{opening}{', '.join(texts)}{comma}{closing}"
    identities += [hash(text)] if len(text) > TEXT_LENGTH else []
    return Value(clipped(text), hash(tuple(identities)) or 1 if any(identities) else 0)


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
        text = clipped(f"{kind.__name__}({item!r})")
        if type(item) is float and item != item:  # noqa: PLR0124
            return Value(text, id(thing))
    elif kind.__module__ in ("numpy", "numpy.dtypes", "ml_dtypes") and not hasattr(kind, "__array__"):
        text = clipped(str(thing))
    return None if text is None else Value(text)


def dtype_text(dtype: Any) -> str:
    """The element type's name, such as `float32` or `key<fry>`."""
    return str(dtype) if is_of(type(dtype), "numpy", "jax", "ml_dtypes") else name_of(type(dtype))


WRAPPERS = 16
"""Most wrappers followed from one function to the next; a longer chain may be a ring."""

PARTIAL_FUNCTION: Any = functools.partial.__dict__["func"]
"""The slot descriptor itself, because a class derived from `partial` may define its own `func`."""


def layers(function: Any) -> Iterator[Any]:
    """A callable, the one that it wraps or calls, and so on, the innermost last."""
    for _ in range(WRAPPERS):
        yield function
        kind = type(function)
        if issubclass(kind, functools.partial):  # JAX's own `Partial` is one as well
            function = PARTIAL_FUNCTION.__get__(function)
        elif kind is MethodType:
            function = function.__func__
        elif is_of(kind, "jax", "jaxlib") and hasattr(kind, "__wrapped__"):
            function = function.__wrapped__
        else:  # a callable object, such as flax's `nnx.jit` makes by `functools.update_wrapper`, may have one
            function = (own_attributes(function) or {}).get("__wrapped__")
            if function is None:
                return


def function_key(function: Any) -> tuple[Any, ...]:
    """A key that all function objects made by the same source share, however they are wrapped, but not two lambdas."""
    return tuple(part for part in map(_part_of_key, layers(function)) if part is not None)


def _part_of_key(function: Any) -> Any:
    kind = type(function)
    if issubclass(kind, functools.partial):
        return "partial"
    if kind is MethodType or (is_of(kind, "jax", "jaxlib") and hasattr(kind, "__wrapped__")):
        return None  # what it wraps says all
    if kind is not FunctionType:
        return name_of(kind), type.__dict__["__module__"].__get__(kind)
    code = function.__code__
    where = code.co_qualname
    if code.co_name == "<lambda>":
        return where, code.co_filename, code.co_firstlineno, hash(code)
    if "<locals>" in where:
        return where, code.co_filename, code.co_firstlineno, *_transformation(function)
    # A module has one function of each name: another object of that name has replaced it, at whatever line.
    return where, function.__globals__.get("__name__")


def definition_of(key: tuple[Any, ...]) -> str:
    """The place of the source of a function with this key, and the transformations of JAX's around it, as text.

    The place is a file and line, or the qualified name for a function that its module has by name.
    """
    where, transformations = "", []
    for part in key:
        if type(part) is not tuple:
            continue
        name, place, *line = part
        if line and "/jax/" in place:
            transformations += [str(called).partition(".")[0] for called in line[1:] or [name]]
        else:
            where = f"{place.rpartition('/')[2]}:{line[0]}" if line else f"{place}.{name}"
    if not where:
        return ""
    return clipped(" under ".join([where.removeprefix("__main__."), *reversed(transformations)]))


def bound_arguments(function: Any) -> list[tuple[str, Any]]:
    """The arguments that a partial binds, by name; none for any other callable, even of a class derived by the user."""
    kind = type(function)
    if kind is not functools.partial and not (issubclass(kind, functools.partial) and is_of(kind, "jax")):
        return []
    inner = function.func
    code = inner.__code__ if type(inner) is FunctionType else None
    names = () if code is None else code.co_varnames[: code.co_argcount]
    positional = [
        (names[number] if number < len(names) else f"args[{number}]", value)
        for number, value in enumerate(function.args)
    ]
    return [*positional, *function.keywords.items()]


def _transformation(function: FunctionType) -> tuple[str, ...]:
    """The names of the functions in the closure of a wrapper of JAX's; empty for any other function.

    All of JAX's transformations return the same wrapper function, and only the functions that it calls tell them apart.
    """
    module = function.__globals__.get("__name__")
    if type(module) is not str or module.partition(".")[0] != "jax":
        return ()
    inner = [cell.cell_contents for cell in function.__closure__ or ()]
    return tuple(called.__code__.co_qualname for called in inner if type(called) is FunctionType)


def function_text(function: Any) -> str:
    """The name of the innermost function that a callable wraps, and the place of its source."""
    *_, inner = layers(function)
    if type(inner) is not FunctionType:
        return name_of(type(inner))
    code = inner.__code__
    return clipped(f"{code.co_name} at {code.co_filename.rpartition('/')[2]}:{code.co_firstlineno}")
