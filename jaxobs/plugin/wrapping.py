"""Wrappers that a probe puts around a library's own functions, so that what they do is marked as they do it.

A wrapped function has the same signature, result, exceptions and traceback as before, and can be pickled by its name. It
is a plain function in the place of a plain function: nothing of the library's is replaced but the attribute.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any, cast

from jaxobs.plugin.protocol import Job


class Wrapping:
    """The wrappers of one probe, taken out again by `undo`."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._enter = job.guard(_enter)
        self._leave = job.guard(_leave)
        self._undo: list[Callable[[], None]] = []
        self._active = True

    def phase(self, owner: Any, name: str, phase_of: Callable[[], str], *, tentative: bool = False) -> None:
        """Each call of `owner.name` is a phase: `Job.phase`. `phase_of` says which, when the call begins."""
        function = _function(owner, name)
        if function is None:
            return

        @functools.wraps(function)
        def marked(*args: Any, **kwargs: Any) -> Any:
            mark = self._job.phase(phase_of(), tentative=tentative) if self._active else None
            if mark is not None:
                self._enter(mark)
            try:
                return function(*args, **kwargs)
            except BaseException as error:
                _without_this_frame(error)
                raise
            finally:
                if mark is not None:
                    self._leave(mark)

        self._put(owner, name, marked)

    def values(self, owner: Any, name: str, values_of: Callable[..., Mapping[str, Any]]) -> None:
        """Record what calls of `owner.name` are given, once the library has taken it: `Job.record`.

        `values_of` gets the arguments of the call, and tells the values by name.
        """
        function = _function(owner, name)
        if function is None:
            return

        def note(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self._job.record(values_of(*args, **kwargs))

        record = self._job.guard(note)

        @functools.wraps(function)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            try:
                result = function(*args, **kwargs)
            except BaseException as error:
                _without_this_frame(error)
                raise
            if self._active:
                record(args, kwargs)
            return result

        self._put(owner, name, recorded)

    def undo(self) -> None:
        """Put back what was there, where nobody else has put a wrapper over it since; that one then calls through."""
        self._active = False
        for undo in self._undo:
            undo()
        self._undo.clear()

    def _put(self, owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
        before = vars(owner)[name]

        def undo() -> None:
            if vars(owner).get(name) is wrapper:
                setattr(owner, name, before)

        self._undo.append(undo)
        setattr(owner, name, wrapper)


def _function(owner: Any, name: str) -> Callable[..., Any] | None:
    """What the class or module has of that name itself; an inherited method is wrapped where it is defined.

    None where `owner` is neither, as it is where this version of a library has no such class.
    """
    found = vars(owner).get(name) if isinstance(owner, type | ModuleType) else None
    return cast("Callable[..., Any]", found) if callable(found) else None


def _enter(mark: AbstractContextManager[None]) -> None:
    mark.__enter__()


def _leave(mark: AbstractContextManager[None]) -> None:
    mark.__exit__(None, None, None)


def _without_this_frame(error: BaseException) -> None:
    """Take the wrapper's frame out of a traceback on its way: to be called where the wrapper has caught it."""
    if error.__traceback__ is not None:
        error.__traceback__ = error.__traceback__.tb_next
