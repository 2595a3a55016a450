"""A watched function: the user's jitted function, which also notes what it ran and when.

To the script it is the function: attributes are read from it and set on it, it prints, hashes and compares as it, and a
pickle of it is one of the function, which loads where there is no jaxobs. Its type alone is another, of the same name.
"""

from __future__ import annotations

import copy
import functools
import inspect
import operator
import sys
import weakref
from types import FunctionType, MethodType
from typing import Any

from jaxobs.jax_compat.objects import is_of, name_of
from jaxobs.model.clock import now
from jaxobs.model.events import WITHOUT_JIT
from jaxobs.plugin.guard import Suppressed
from jaxobs.plugin.wrapping import drop_internal_frames, internal
from jaxobs.probe.watch.calls import Calls
from jaxobs.probe.watch.completions import Output


class State:
    """What a watched function keeps beside its calls: the function, or its twin, and what was learned about it."""

    def __init__(self, function: Any, original: Any) -> None:
        self.function = function
        self.learned: dict[str, Any] | None = None
        self._original = None if original is None else weakref.ref(original)
        self.hash = None if original is None else hash(original)

    @property
    def given(self) -> Any:
        """The function that was given to be watched; the twin once it is gone."""
        given = None if self._original is None else self._original()
        return self.function if given is None else given


class _OfTheFunction(str):
    """A text that a class has as any class has it, and its instances as the function has it that they stand for."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.attribute = name

    def __get__(self, watched: Watched | None, owner: type | None = None) -> Any:
        return str(self) if watched is None else getattr(state_of(watched).function, self.attribute)


class Watched:
    """Stands in for the function that it wraps, and notes its calls. Each is of a subclass that `_named` makes."""

    __slots__ = ("__weakref__", "_jaxobs", "_jaxobs_calls")

    def __new__(cls, function: Any, original: Any = None) -> Watched:
        """`original`: the function that was given, where `function` is a twin of it. Only referred to weakly."""
        kind = type(function)
        made: Watched = object.__new__(_named(kind.__name__, kind.__module__, binds=hasattr(kind, "__get__")))
        object.__setattr__(made, "_jaxobs", State(function, original))
        object.__setattr__(made, "_jaxobs_calls", None)
        return made

    @internal
    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:  # noqa: C901, PLR0912  # hot
        calls = self._jaxobs_calls
        if calls is None:
            return self._jaxobs.function(*args, **kwargs)
        executables = calls.executables
        count = executables.count
        step = calls.current.step
        if step is None:
            if calls.unmarked.output is not None:
                calls.completions.turn_ended(calls.unmarked)
        elif step.hidden:  # inside a trace nothing runs
            try:
                return calls.function(*args, **kwargs)
            except BaseException as error:
                drop_internal_frames(error)
                raise
        started = now()
        try:
            result = calls.function(*args, **kwargs)
            ended = now()
        except BaseException as error:
            if step is not None:
                step.fail()
            calls.failed(error, count, args, kwargs)
            drop_internal_frames(error)
            raise
        compiled = None
        if executables.count != count or calls.cache_size(calls.jitted) != calls.size_seen:
            # Count as unknown until learned: a signal handler of the user's may interrupt the learning.
            known = calls.run, calls.read, calls.complete
            calls.run, calls.read, calls.complete = calls.number, None, False
            compiled = calls.learn(count, args, kwargs, known)
        run = calls.run if calls.read is None else calls.which(args, kwargs)
        if run > 0 and calls.jit_is_off.value:
            run = WITHOUT_JIT
        if step is None:
            output = calls.called_outside(run, started, ended, compiled)
            if output is not None:
                calls.completions.called(calls.leaf, result, output, calls.unmarked, args, kwargs)
            return result
        if step.run:
            step.later_runs.append(run)
            step.dispatch += ended - started
        else:
            step.run = run
            step.dispatch = ended - started
        if step.asks or compiled is not None:
            output = Output(step.state, step.number, run, started, ended, compiled)
            calls.completions.called(calls.leaf, result, output, step, args, kwargs)
        return result

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_jaxobs"):  # not there yet: while being made
            raise AttributeError(name)
        return getattr(self._jaxobs.function, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._jaxobs.function, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._jaxobs.function, name)

    def __dir__(self) -> list[str]:
        return dir(self._jaxobs.function)

    @property  # type: ignore[misc]  # object's own is an attribute
    def __class__(self) -> type:
        return type(self._jaxobs.function)

    def __repr__(self) -> str:
        return repr(self._jaxobs.function)

    def __str__(self) -> str:
        return str(self._jaxobs.function)

    def __eq__(self, other: object) -> bool:
        return other is self or bool(self._jaxobs.given == other)

    def __hash__(self) -> int:
        state = self._jaxobs
        return hash(state.function) if state.hash is None else state.hash

    def __copy__(self) -> Any:
        return self  # as functions do

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        state = self._jaxobs
        if state.hash is not None:  # a copy of a jitted function calls the same function
            return self
        copied = copy.deepcopy(state.function, memo)
        return self if copied is state.function else copied

    def __reduce__(self) -> Any:
        if self.__class__ is FunctionType and _is_found_by_name(self):
            return self.__qualname__
        # Another process has an observer of its own, or none.
        return operator.getitem, ((self._jaxobs.function,), 0)

    def __getstate__(self) -> object:
        return self._jaxobs.function.__getstate__()  # every object has it since Python 3.11


class _Kind(type):
    """The type of watched functions. What is of the function's own type counts too: scripts ask by `type(jax.jit(f))`."""

    def __subclasscheck__(cls, kind: type) -> bool:
        own = type.__subclasscheck__(cls, kind)
        return own or (name_of(kind) == cls.__name__ and is_of(kind, "jax", "jaxlib"))

    def __instancecheck__(cls, thing: object) -> bool:
        return issubclass(type(thing), cls)


@functools.cache
def _named(name: str, module: str, *, binds: bool) -> Any:
    """A class of the name that the function's has: `help()` shows it, and what Python says of a wrong use.

    `binds`: whether an attribute of a class becomes a method, as functions do and programs compiled ahead of time do not.
    """
    own: dict[str, Any] = {
        "__slots__": (),
        "__doc__": _OfTheFunction(Watched.__doc__),
        "__module__": _OfTheFunction(module),
        "__annotations__": property(lambda watched: state_of(watched).function.__annotations__),
    }
    if binds:
        own["__get__"] = _bound
    else:  # of an object `inspect` reads the signature of its class's `__call__`
        own["__signature__"] = property(lambda watched: inspect.signature(state_of(watched).function))
    return _Kind(name, (Watched,), own)


def _bound(watched: Watched, instance: object, owner: type | None = None) -> Any:  # noqa: ARG001  # Python passes it
    return watched if instance is None else MethodType(watched, instance)


def state_of(watched: Watched) -> State:
    """What a watched function keeps, beside what it shows of the function."""
    state: State = watched._jaxobs  # noqa: SLF001  # attributes of any other name are the function's
    return state


def calls_of(watched: Watched) -> Calls | None:
    """What its calls are noted in, for the current observer; None if there is none."""
    calls: Calls | None = watched._jaxobs_calls  # noqa: SLF001  # as above
    return calls


def note_for(watched: Watched, calls: Calls | None) -> None:
    """Note what it runs in `calls` from now on, which takes over what was learned before; None notes nothing."""
    state, before = state_of(watched), calls_of(watched)
    if before is not None:
        state.learned = before.learned()
    if calls is not None and state.learned is not None:
        calls.inherit(state.learned)
    object.__setattr__(watched, "_jaxobs_calls", calls)


def _is_found_by_name(function: Any) -> bool:
    """Whether the function's module has it under its name, by which a plain function is pickled."""
    found: Any = sys.modules.get(function.__module__)
    with Suppressed(AttributeError):
        for name in function.__qualname__.split("."):
            found = getattr(found, name)
        return found is function
    return False
