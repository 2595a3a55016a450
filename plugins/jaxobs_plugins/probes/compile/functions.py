"""Identifies the function being compiled by its source, because the function object may be new at each compile."""

from __future__ import annotations

import functools
from types import FunctionType, MethodType
from typing import Any, NamedTuple

from jaxobs.jax_compat.objects import clipped, is_of, name_of
from jaxobs_plugins.probes.compile.values import value_of

METHOD = "method"
"""Element of a key that marks a bound method."""

WRAPPERS = 16
"""Most wrappers followed from one function to the next; a longer chain may be a ring."""

PARTIAL_FUNCTION: Any = functools.partial.__dict__["func"]
"""The slot descriptor itself, because a class derived from `partial` may define its own `func`."""


def function_key(function: Any) -> tuple[Any, ...]:
    """A key that all function objects made by the same source share, however they are wrapped, but not two lambdas."""
    parts: list[Any] = []
    for _ in range(WRAPPERS):
        kind = type(function)
        if issubclass(kind, functools.partial):  # JAX's own `Partial` is one as well
            parts.append("partial")
            function = PARTIAL_FUNCTION.__get__(function)
        elif kind is MethodType:
            parts.append(METHOD)
            function = function.__func__
        elif kind is FunctionType:
            code = function.__code__
            where = code.co_qualname
            if code.co_name == "<lambda>":
                parts.append((where, code.co_filename, code.co_firstlineno, hash(code)))
            elif "<locals>" in where:
                parts.append((where, code.co_filename, code.co_firstlineno, *_transformation(function)))
            else:  # a module has one function of each name: another object of that name has replaced it
                parts.append((where, function.__globals__.get("__name__")))
            function = function.__dict__.get("__wrapped__")
            if function is None:
                break
        elif is_of(kind, "jax", "jaxlib") and hasattr(kind, "__wrapped__"):
            function = function.__wrapped__
        else:
            parts.append((name_of(kind), type.__dict__["__module__"].__get__(kind)))
            function = _wrapped_by(function)
            if function is None:
                break
    return tuple(parts)


def is_one_of_many(key: tuple[Any, ...]) -> bool:
    """Whether several functions with this key may exist at once: closures, lambdas and bound methods.

    Of the functions of a module, by contrast, each name has one.
    """
    return METHOD in key or any(type(part) is tuple and len(part) > len(("name", "module")) for part in key)


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
    return (
        clipped(" under ".join([where.removeprefix("__main__."), *reversed(transformations)]))
        if where
        else ""
    )


class Bound(NamedTuple):
    """The function that a `functools.partial` calls, and the arguments that it binds, by name."""

    function: Any
    arguments: tuple[tuple[str, Any], ...]


def bound_by(function: Any) -> Bound:
    """The function and arguments of a partial; no arguments for any other callable, even a user subclass."""
    kind = type(function)
    if not _is_partial(kind):
        return Bound(function, ())
    inner = function.func
    code = inner.__code__ if type(inner) is FunctionType else None
    names = () if code is None else code.co_varnames[: code.co_argcount]
    positional = [
        (names[number] if number < len(names) else f"args[{number}]", value)
        for number, value in enumerate(function.args)
    ]
    return Bound(inner, (*positional, *function.keywords.items()))


def _is_partial(kind: type) -> bool:
    return kind is functools.partial or (issubclass(kind, functools.partial) and is_of(kind, "jax"))


def _transformation(function: FunctionType) -> tuple[str, ...]:
    """The names of the functions in the closure of a wrapper of JAX's; empty for any other function.

    All of JAX's transformations return the same wrapper function, and only the functions that it calls tell them apart.
    """
    module = function.__globals__.get("__name__")
    if type(module) is not str or module.partition(".")[0] != "jax":
        return ()
    inner = [cell.cell_contents for cell in function.__closure__ or ()]
    return tuple(called.__code__.co_qualname for called in inner if type(called) is FunctionType)


def _wrapped_by(thing: Any) -> Any:
    """The `__wrapped__` of a callable object, such as flax's `nnx.jit` makes, from `functools.update_wrapper`."""
    try:
        attributes = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        return None
    return attributes.get("__wrapped__") if type(attributes) is dict else None


def function_text(function: Any) -> str:
    """A function's name and the place of its source; for a partial, the function and the values that it binds."""
    kind = type(function)
    if _is_partial(kind):
        bound = [value_of(value).text for value in function.args[:8]]
        bound += [f"{name}={value_of(value).text}" for name, value in list(function.keywords.items())[:8]]
        return clipped(f"partial({', '.join([_name(function.func), *bound])})")
    if kind is MethodType:
        return function_text(function.__func__)
    if kind is FunctionType:
        inner = function
        for _ in range(WRAPPERS):
            wrapped = inner.__dict__.get("__wrapped__")
            if type(wrapped) is not FunctionType:
                break
            inner = wrapped
        code = inner.__code__
        return clipped(f"{code.co_name} at {code.co_filename.rpartition('/')[2]}:{code.co_firstlineno}")
    wrapped = _wrapped_by(function)
    return function_text(wrapped) if type(wrapped) is FunctionType else name_of(kind)


def _name(function: Any) -> str:
    return str(function.__name__) if type(function) is FunctionType else name_of(type(function))
