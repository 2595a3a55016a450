"""A watched function: the user's jitted function, which also notes what it ran and when."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MethodType
from typing import Any, Generic, ParamSpec, Self, TypeVar

from jaxobs.model.clock import now
from jaxobs.model.events import FunctionCalled
from jaxobs.probe.calls import Calls

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Watched(Generic[Parameters, Result]):
    """Called like the function it wraps; `.lower`, `.trace`, `.clear_cache` and all else are the function's."""

    def __init__(self, function: Callable[Parameters, Result], calls: Calls) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._calls = calls

    def __call__(self, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        calls = self._calls
        executables = calls.executables
        count = executables.count
        step = calls.current.step
        if step is not None and step.hidden:
            return calls.function(*args, **kwargs)  # type: ignore[no-any-return]  # inside a trace nothing runs
        completions = calls.completions
        sampling = completions.armed and not calls.leaf.exhausted
        if sampling:
            completions.before_call()
        started = now()
        try:
            result: Result = calls.function(*args, **kwargs)
            ended = now()
        except BaseException as error:
            if step is not None:
                step.fail()
            calls.failed(error, count, args, kwargs)
            raise
        if executables.count != count or calls.new:
            sampling = (
                sampling and executables.count == count
            )  # a call that compiled began long before its run
            # Nothing is known until it is learned: a signal handler of the user's may cut that short.
            known = calls.run, calls.read, calls.complete
            calls.run, calls.read, calls.complete = calls.number, None, False
            calls.learn(count, args, kwargs, known)
        run = calls.run if calls.read is None else calls.which(args, kwargs)
        if step is None:
            calls.outside[run] = calls.outside.get(run, 0) + 1
        elif step.runs:
            step.later_runs.append(run)
            step.dispatch += ended - started
        else:
            step.runs = (run,)
            step.dispatch = ended - started
        if sampling:
            loop, number = (step.loop, step.number) if step is not None else ("", 0)
            completions.after_call(calls.leaf, result, run, loop, number, started, ended)
        return result

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Watching a method works as the method did."""
        return self if instance is None else MethodType(self, instance)

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

    def __repr__(self) -> str:
        return f"<watched {self._function!r}>"

    def _clear_cache(self) -> None:
        self._function.clear_cache()  # type: ignore[attr-defined]  # only reached where the function has it
        self._calls.forget()

    def calls_outside(self) -> list[FunctionCalled]:
        """Calls outside any step since this was last asked."""
        return self._calls.outside_steps()


def _as_it_is(function: Any) -> Any:
    """What a watched function becomes where it is unpickled."""
    return function
