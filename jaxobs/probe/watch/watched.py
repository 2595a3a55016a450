"""A watched function: the user's jitted function, which also notes what it ran and when."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from types import MethodType
from typing import Any, Generic, ParamSpec, Self, TypeVar

from jaxobs.model.clock import now
from jaxobs.model.events import UNMARKED
from jaxobs.plugin.wrapping import drop_own_frames
from jaxobs.probe.watch.calls import Calls, Learned
from jaxobs.probe.watch.executables import Created

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Watched(Generic[Parameters, Result]):
    """Stands in for the jitted function that it wraps: calls, `.lower`, `.trace`, `.clear_cache` and all else go to it.

    `_calls` notes what it runs for the current observer; None where there is none.
    """

    def __init__(
        self, function: Callable[Parameters, Result], original: weakref.ref[Any] | None = None
    ) -> None:
        # The attributes of other objects change: they are read from the object, by `__getattr__`.
        copied = functools.WRAPPER_UPDATES if hasattr(type(function), "__get__") else ()
        functools.update_wrapper(self, function, updated=copied)
        self.__wrapped__ = getattr(function, "__wrapped__", function)  # of a jitted function, the user's own
        self._function = function
        self._calls: Calls | None = None
        self._learned: Learned | None = None
        self.original = original
        """A weak reference to the function that was given, where `function` is a twin of it."""

    def __call__(self, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:  # noqa: C901  # hot
        calls = self._calls
        if calls is None:
            return self._function(*args, **kwargs)
        executables = calls.executables
        count = executables.count
        step = calls.current.step
        if step is not None and step.hidden:
            return calls.function(*args, **kwargs)  # type: ignore[no-any-return]  # inside a trace nothing runs
        completions = calls.completions
        sampling = completions.armed and completions.before_call()
        started = now()
        try:
            result: Result = calls.function(*args, **kwargs)
            ended = now()
        except BaseException as error:
            if step is not None:
                step.fail()
            calls.failed(error, count, args, kwargs)
            drop_own_frames(error)
            raise
        if executables.count != count or calls.new:
            # A call that compiled began long before its run.
            sampling = sampling and executables.count == count
            # Count as unknown until learned: a signal handler of the user's may interrupt the learning.
            known = calls.run, calls.read, calls.complete
            calls.run, calls.read, calls.complete = calls.number, None, False
            calls.learn(count, args, kwargs, known)
            if executables.count != count:
                calls.compiled(result, args, kwargs)
        run = calls.run if calls.read is None else calls.which(args, kwargs)
        if step is None:
            number = calls.unmarked.note(run, started, ended) if calls.current.phase is None else 0
            if number == 0:
                calls.outside[run] = calls.outside.get(run, 0) + 1
        elif step.run:
            step.later_runs.append(run)
            step.dispatch += ended - started
        else:
            step.run = run
            step.dispatch = ended - started
        if sampling:
            loop, number = (step.loop, step.number) if step is not None else (UNMARKED, number)
            completions.after_call(calls.leaf, result, run, loop, number, started, ended)
        return result

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Bind where what is watched does: a method stays a method, and a program compiled ahead of time is none."""
        binds = instance is not None and hasattr(type(self._function), "__get__")
        return MethodType(self, instance) if binds else self

    def __getattr__(self, name: str) -> Any:
        if name in {"_function", "_calls"}:  # not there yet: while being copied or unpickled
            raise AttributeError(name)
        attribute = getattr(self._function, name)
        return self._clear_cache if name == "clear_cache" else attribute

    def __copy__(self) -> Self:
        return self  # as functions do

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _as_it_is, (self._function,)  # another process has an observer of its own, or none

    def __getstate__(self) -> object:
        return self._function.__getstate__()  # every object has it since Python 3.11

    def __repr__(self) -> str:
        return f"<watched {self._function!r}>"

    def _clear_cache(self) -> None:
        self._function.clear_cache()  # type: ignore[attr-defined]  # only reached where the function has it
        if self._calls is not None:
            self._calls.forget()

    @property
    def is_noted(self) -> bool:
        """Whether an observer notes what it runs."""
        return self._calls is not None

    @property
    def function(self) -> Callable[Parameters, Result]:
        """The jitted function that is watched, or its twin."""
        return self._function

    def compiled_ahead(self, created: Created) -> None:
        """Note that the function is a program compiled ahead of time, into this executable."""
        if self._calls is not None:
            self._calls.compiled_ahead(created)

    def note_for(self, calls: Calls | None) -> None:
        """Note what it runs in `calls` from now on, which takes over what was learned before; None notes nothing."""
        if self._calls is not None:
            self._learned = self._calls.learned()
        if calls is not None and self._learned is not None:
            calls.inherit(self._learned)
        self._calls = calls


def _as_it_is(function: Any) -> Any:
    """Unpickle a watched function, as the function itself."""
    return function
