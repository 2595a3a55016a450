"""Stands in for functions of a library, to mark or record their calls.

A wrapped function has the same signature, result, exceptions, traceback and lines in warnings as before, and can be
pickled by its name. It is a plain function in place of a plain function: only the attribute of the library's class or
module is replaced.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import FunctionType, ModuleType
from typing import Any, TypeVar, cast

from jaxobs.plugin.guard import TRACEBACK

Wrapper = TypeVar("Wrapper", bound=Callable[..., Any])

INTERNAL = "<frozen importlib._bootstrap of jaxobs>"
"""The file name of code that calls what it wraps. `warnings` and `logging` count no frame whose file name has
`importlib` and `_bootstrap` in it (Python 3.11 to 3.13), so that a `stacklevel` leads to the user's line as if the frame
were not there; debuggers take files whose names begin with `<frozen` for none of the user's, and
`trace` takes what is in angle brackets for no file."""


def internal(wrapper: Wrapper) -> Wrapper:
    """Let the frames of a function that calls what it wraps be passed over as INTERNAL says. For decorating it."""
    function = cast("FunctionType", wrapper)
    function.__code__ = function.__code__.replace(co_filename=INTERNAL)
    return wrapper


def standing_in(original: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let a function stand in for `original`, which it calls: under its name, and with no frame of ours in tracebacks."""

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        calling = internal(function)

        @functools.wraps(original)
        @internal
        def called(*args: Any, **kwargs: Any) -> Any:
            try:
                return calling(*args, **kwargs)
            except BaseException as error:
                drop_internal_frames(error)
                raise

        return called

    return decorated


def replace(owner: Any, replacements: Mapping[str, Any]) -> Callable[[], None]:
    """Set attributes of a class or module. Returns what puts back those that nobody has replaced since."""
    before = {name: vars(owner).get(name) for name in replacements}
    for name, ours in replacements.items():
        setattr(owner, name, ours)

    def put_back() -> None:
        for name, ours in replacements.items():
            if vars(owner).get(name) is ours:
                if before[name] is None:  # it was inherited
                    delattr(owner, name)
                else:
                    setattr(owner, name, before[name])

    return put_back


def drop_internal_frames(error: BaseException) -> None:
    """Remove frames of `internal` functions, which raise again what they have caught, from the top of a traceback."""
    traceback = TRACEBACK.__get__(error)
    while traceback is not None and traceback.tb_frame.f_code.co_filename == INTERNAL:
        traceback = traceback.tb_next
    TRACEBACK.__set__(error, traceback)


def function_of(owner: Any, name: str) -> Callable[..., Any] | None:
    """The function that a class or module itself defines under a name; inherited methods are wrapped where defined.

    None if `owner` is neither, as when this version of a library has no such class, or if a class has something else
    there, such as a static method: in its place a function would be given the instance.
    """
    found = vars(owner).get(name) if isinstance(owner, type | ModuleType) else None
    is_function = isinstance(found, FunctionType) if isinstance(owner, type) else callable(found)
    return cast("Callable[..., Any]", found) if is_function else None
