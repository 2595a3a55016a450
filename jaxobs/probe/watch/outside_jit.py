"""Watches loops of `jax.lax` that a script runs outside jit, without `obs.watch()`, under a launcher.

Outside jit, `jax.lax.scan` and the like compile a program each, which the compile probe names by the user's line. Calls
from the same line count as those of one function. Calls inside a trace, and from JAX itself, stay as they are.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

from jaxobs.plugin.call_site import call_site
from jaxobs.plugin.guard import Suppressed
from jaxobs.plugin.wrapping import drop_own_frames, replace
from jaxobs.probe.steps.loops import Current
from jaxobs.probe.watch.automatic import Watch, is_of_jax

NAMES = ("scan", "while_loop", "fori_loop", "map")

SITES = 100
"""Most lines whose calls are watched; a script has few."""


def watch_loops_outside_jit(jax: ModuleType, watch: Watch, current: Current) -> Callable[[], None]:
    """Let the loops NAMES of `jax.lax` be watched, line by line. Returns what restores those that are still ours."""
    lax = jax.lax
    return replace(lax, {name: _watching(name, getattr(lax, name), watch, current) for name in NAMES})


def _watching(name: str, original: Any, watch: Watch, current: Current) -> Callable[..., Any]:
    lines = _Lines(name, original, watch)

    @functools.wraps(original)
    def looping(*args: Any, **kwargs: Any) -> Any:
        caller, step = sys._getframe(1), current.step  # noqa: SLF001  # who calls
        traced = step is not None and step.hidden
        function = original if traced or is_of_jax(caller) else lines.at(caller)
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            drop_own_frames(error)
            raise

    looping.__module__ = "jax.lax"  # where pickle finds it
    return looping


class _Lines:
    """One watched function for each line that calls a loop of `jax.lax`, under the name its programs get."""

    def __init__(self, name: str, original: Callable[..., Any], watch: Watch) -> None:
        self._name = name
        self._original = original
        self._watch = watch
        self._functions: dict[str, Callable[..., Any]] = {}

    def at(self, caller: FrameType) -> Callable[..., Any]:
        with Suppressed(Exception):  # what cannot be watched is run all the same
            site = call_site(caller)
            title = "" if site is None else site.names(self._name)
            if title and title not in self._functions and len(self._functions) < SITES:
                self._functions[title] = self._watch(self._named(title))
            return self._functions.get(title, self._original)
        return self._original

    def _named(self, title: str) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            return self._original(*args, **kwargs)

        called.__name__ = called.__qualname__ = title
        return called
