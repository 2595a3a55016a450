"""Watches every function that the script and its libraries jit, without `obs.watch()`, under a launcher.

`jax.jit` and `jax.pmap` are public names of a module. They are replaced there by functions that do the same and watch
the result. JAX itself refers to them by other names, which stay as they are.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

from jaxobs.plugin.guard import Suppressed
from jaxobs.plugin.wrapping import drop_own_frames, replace

NAMES = ("jit", "pmap")

Watch = Callable[[Any], Any]


def watch_all_jitted(jax: ModuleType, watch: Watch) -> Callable[[], None]:
    """Let `jax.jit` and `jax.pmap` `watch` their results. Returns what restores those that are still ours."""
    return replace(jax, {name: _watching(getattr(jax, name), watch, jax) for name in NAMES})


def _watching(original: Any, watch: Watch, jax: ModuleType) -> Callable[..., Any]:
    def watched(function: Any) -> Any:
        with Suppressed(Exception):  # a function that cannot be watched is jitted all the same
            return watch(function)
        return function

    @functools.wraps(original)
    def jitting(*args: Any, **kwargs: Any) -> Any:
        try:
            jitted = original(*args, **kwargs)
        except BaseException as error:
            drop_own_frames(error)
            raise
        if is_of_jax(sys._getframe(1)):  # noqa: SLF001  # who calls
            return jitted
        if not args and "fun" not in kwargs:  # `@jax.jit(static_argnames=…)`
            return lambda fun: watched(jitted(fun))
        return watched(jitted)

    jitting.__module__ = jax.__name__  # where pickle finds it
    return jitting


def is_of_jax(frame: FrameType) -> bool:
    """Whether a frame runs code of JAX's own."""
    module = frame.f_globals.get("__name__")
    return isinstance(module, str) and module.partition(".")[0] == "jax"
