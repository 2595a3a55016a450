"""A watched function: the user's jitted function, which also notes what it ran and when."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MethodType
from typing import Any, Generic, ParamSpec, Self, TypeVar

from jaxobs.model.clock import now
from jaxobs.model.events import FunctionCalled, FunctionWatched
from jaxobs.probe.completions import Completions, OutputLeaf
from jaxobs.probe.executables import Executables
from jaxobs.probe.jax_internals import executables_alive
from jaxobs.probe.loops import Current
from jaxobs.probe.signatures import Signature, reader, signature, telling_paths

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

LAMBDA = "<lambda>"
"""A name that says nothing about which function it is."""

NOT_SEEN = "it was compiled before it was watched, or is not a jitted function itself"
NOT_TOLD = "it has several executables, and shapes and types of its arguments do not tell which one ran"


class Watched(Generic[Parameters, Result]):
    """Called like the function it wraps; `.lower`, `.trace`, `.clear_cache` and every other attribute are the function's.

    `number` (negative) stands for this function wherever it is not visible which of its executables ran.
    """

    def __init__(
        self,
        function: Callable[Parameters, Result],
        number: int,
        emit: Callable[[Any], None],
        current: Current,
        executables: Executables,
        completions: Completions,
    ) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._name = getattr(function, "__name__", type(function).__name__)
        self._number = number
        self._emit = emit
        self._current = current
        self._executables = executables
        self._completions = completions
        self._leaf = OutputLeaf()
        self._known: list[tuple[Signature, int]] = []
        self._read: Callable[[tuple[Any, ...], dict[str, Any]], tuple[Any, ...]] | None = None
        self._table: dict[tuple[Any, ...], int] = {}
        self._run = number  # what a call runs while there is only one executable
        self._new = True
        self._earlier = executables_alive(function)
        self._complete = True  # whether every executable it has is known here
        self._outside: dict[int, int] = {}
        self._outside_told: dict[int, int] = {}
        self._explain(NOT_SEEN)

    def __call__(self, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        executables = self._executables
        count = executables.count
        step = self._current.step
        if step is not None and step.hidden:
            return self._function(*args, **kwargs)  # inside a trace nothing runs
        completions = self._completions
        sampling = completions.armed and not self._leaf.exhausted
        if sampling:
            completions.before_call()
        started = now()
        try:
            result = self._function(*args, **kwargs)
        except BaseException:
            if step is not None:
                step.fail()
            raise
        ended = now()
        if executables.count != count or self._new:
            self._learn(count, args, kwargs)
        run = self._run if self._read is None else self._which(args, kwargs)
        if step is None:
            self._outside[run] = self._outside.get(run, 0) + 1
        else:
            step.dispatch += ended - started
            step.ran(run)
        if sampling:
            loop, number = (step.loop, step.number) if step is not None else ("", 0)
            completions.after_call(self._leaf, result, run, loop, number, started, ended)
        return result

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Watching a method works as the method did."""
        return self if instance is None else MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        if name == "_function":  # not there yet: while being copied or unpickled
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

    def _which(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        try:
            assert self._read is not None
            return self._table.get(self._read(args, kwargs), self._number)
        except Exception:  # noqa: BLE001  # arguments of another structure than those seen
            return self._number

    def _learn(self, count: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Something was compiled during the call: if it was this function, remember for which arguments."""
        try:
            made = self._executables.since(count, self._name)
            if self._new:
                self._new = False
                if not made and self._earlier == 1 and self._name != LAMBDA:
                    # Called before it was watched: the one executable seen under its name is it.
                    seen = self._executables.of(self._name)
                    made = seen if len(seen) == 1 else []
                    self._complete = bool(made)
                else:
                    self._complete = bool(made) and not self._earlier
            if made and self._complete:
                self._remember(signature(args, kwargs), made[-1])
        except Exception as error:  # noqa: BLE001  # never into the user's call
            self._give_up(f"{NOT_TOLD} ({type(error).__name__})")

    def _remember(self, seen: Signature, executable: int) -> None:
        if executables_alive(self._function) == 1:
            self._known = []  # `jax.clear_caches()`, or a function that was let go
        for index, (known, _) in enumerate(self._known):
            if known == seen:
                # The same shapes, another static argument or sharding: both are alive.
                self._known[index] = (known, self._number)
                self._explain(NOT_TOLD)
                break
        else:
            self._known.append((seen, executable))
        if len(self._known) == 1:
            self._read, self._run = None, self._known[0][1]
            return
        self._run = self._number
        paths = telling_paths([known for known, _ in self._known])
        if paths is None:
            self._give_up(NOT_TOLD)
            return
        self._table = {tuple(known[path] for path in paths): number for known, number in self._known}
        self._read = reader(paths)

    def _give_up(self, reason: str) -> None:
        self._read, self._run = None, self._number
        self._explain(reason)

    def _forget(self) -> None:
        self._known, self._read, self._table, self._run = [], None, {}, self._number
        self._new, self._earlier, self._complete = True, 0, True

    def _clear_cache(self) -> None:
        self._function.clear_cache()  # type: ignore[attr-defined]  # only reached where the function has it
        self._forget()

    def _explain(self, reason: str) -> None:
        self._emit(FunctionWatched(self._number, self._name, reason, now()))

    def calls_outside(self) -> list[FunctionCalled]:
        """Calls outside any step since this was last asked: an event each would flood a loop that marks no steps."""
        calls = []
        for run, total in list(self._outside.items()):
            new = total - self._outside_told.get(run, 0)
            if new:
                self._outside_told[run] = total
                calls.append(FunctionCalled(run, new, now()))
        return calls


def _as_it_is(function: Any) -> Any:
    """What a watched function becomes where it is unpickled."""
    return function
