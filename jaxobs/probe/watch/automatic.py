"""Watches what the script and its libraries jit, compile ahead of time or loop over, without `obs.watch()`.

This is for launchers. Public names of JAX are replaced by functions that do the same and watch the result: `jax.jit`,
`jax.pmap`, `jax.stages.Lowered.compile` (the one way to a program that can be called), and the loops of `jax.lax`, which
compile a program each where they are called outside jit. JAX itself refers to them by other names, which stay as they
are; calls from JAX's own code are let through.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

from jaxobs.plugin.frames import call_site
from jaxobs.plugin.guard import Suppressed
from jaxobs.plugin.wrapping import internal, replace, standing_in
from jaxobs.probe.steps.loops import Current
from jaxobs.probe.watch.calls import Executables
from jaxobs.probe.watch.watched import Watched, calls_of

JITTING = ("jit", "pmap")
LOOPS = ("scan", "while_loop", "fori_loop", "map")

SITES = 100
"""Most lines whose loops outside jit are watched; a script has few."""

Watch = Callable[[Any], Any]


def watch_all_jitted(jax: ModuleType, watch: Watch) -> Callable[[], None]:
    """Let `jax.jit` and `jax.pmap` `watch` their results. Returns what restores those that are still ours."""
    return replace(jax, {name: _jitting(getattr(jax, name), watch, jax) for name in JITTING})


def _jitting(original: Any, watch: Watch, jax: ModuleType) -> Callable[..., Any]:
    @standing_in(original)
    def jitting(*args: Any, **kwargs: Any) -> Any:
        jitted = original(*args, **kwargs)
        if _is_of_jax(_caller()):
            return jitted
        if not args and "fun" not in kwargs:  # `@jax.jit(static_argnames=…)`
            return functools.partial(jitting, **kwargs)
        with Suppressed(Exception):  # a function that cannot be watched is jitted all the same
            return watch(jitted)
        return jitted

    jitting.__module__ = jax.__name__  # where pickle finds it
    return jitting


def watch_compiled_ahead(
    jax: ModuleType, watch: Callable[[Any], Watched], executables: Executables
) -> Callable[[], None]:
    """Let `Lowered.compile()` return watched programs. Returns what restores the method, if it is still ours."""
    lowered = jax.stages.Lowered
    original = lowered.compile

    @standing_in(original)
    def compiling(self: Any, *args: Any, **kwargs: Any) -> Any:
        count = executables.count
        compiled = original(self, *args, **kwargs)
        if _is_of_jax(_caller()):
            return compiled
        with Suppressed(Exception):  # a program that cannot be watched runs all the same
            if created := executables.since(count):
                found = watch(compiled)
                if (calls := calls_of(found)) is not None:
                    calls.compiled_ahead(created[-1])
                return found
        return compiled

    return replace(lowered, {"compile": compiling})


def watch_loops_outside_jit(jax: ModuleType, watch: Watch, current: Current) -> Callable[[], None]:
    """Let the LOOPS of `jax.lax` be watched, line by line. Returns what restores those that are still ours.

    The compile probe names the program of such a loop by the user's line. Calls from the same line count as those of one
    function. Calls inside a trace stay as they are.
    """
    lax = jax.lax
    return replace(lax, {name: _looping(name, getattr(lax, name), watch, current) for name in LOOPS})


def _looping(name: str, original: Callable[..., Any], watch: Watch, current: Current) -> Callable[..., Any]:
    functions: dict[str, Callable[..., Any]] = {}
    """A watched function for each line that calls this loop, by the name that its programs get."""

    def at(caller: FrameType) -> Callable[..., Any]:
        with Suppressed(Exception):  # what cannot be watched is run all the same
            site = call_site(caller)
            title = "" if site is None else site.names(name)
            if title and title not in functions and len(functions) < SITES:
                functions[title] = watch(named(title))
            return functions.get(title, original)
        return original

    def named(title: str) -> Callable[..., Any]:
        @internal
        def called(*args: Any, **kwargs: Any) -> Any:
            return original(*args, **kwargs)

        called.__name__ = called.__qualname__ = title
        return called

    @standing_in(original)
    def looping(*args: Any, **kwargs: Any) -> Any:
        caller, step = _caller(), current.step
        traced = step is not None and step.hidden
        return (original if traced or _is_of_jax(caller) else at(caller))(*args, **kwargs)

    looping.__module__ = "jax.lax"  # where pickle finds it
    return looping


def _caller() -> FrameType:
    """The frame that has called a function which stands in for another: above this one and the two of that function.

    This one where C has called it, as it does what a thread or `atexit` was given.
    """
    with Suppressed(ValueError):
        return sys._getframe(3)  # noqa: SLF001  # the public way to a frame
    return sys._getframe()  # noqa: SLF001  # as above


def _is_of_jax(frame: FrameType) -> bool:
    """Whether a frame runs code of JAX's own."""
    module = frame.f_globals.get("__name__")
    return isinstance(module, str) and module.partition(".")[0] == "jax"
