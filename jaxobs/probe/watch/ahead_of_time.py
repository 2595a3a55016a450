"""Watches programs that a script compiles ahead of time, without `obs.watch()`, under a launcher.

`jax.stages.Lowered` is public, and `lowered.compile()` the one way from it to a program that can be called.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from jaxobs.plugin.guard import Suppressed
from jaxobs.plugin.wrapping import drop_own_frames, replace
from jaxobs.probe.watch.automatic import is_of_jax
from jaxobs.probe.watch.executables import Executables
from jaxobs.probe.watch.watched import Watched


class WatchedProgram(Watched[..., Any]):
    """A watched compiled program. It passes for the program in `isinstance(compiled, jax.stages.Compiled)`."""

    @property  # type: ignore[misc]  # object's own is an attribute
    def __class__(self) -> type:
        return type(self.function)


def watch_compiled_ahead(
    jax: ModuleType, watch: Callable[[Any], Watched[Any, Any]], executables: Executables
) -> Callable[[], None]:
    """Let `Lowered.compile()` return watched programs. Returns what restores the method, if it is still ours."""
    lowered = jax.stages.Lowered
    original = lowered.compile

    @functools.wraps(original)
    def compiling(self: Any, *args: Any, **kwargs: Any) -> Any:
        count = executables.count
        try:
            compiled = original(self, *args, **kwargs)
        except BaseException as error:
            drop_own_frames(error)
            raise
        if is_of_jax(sys._getframe(1)):  # noqa: SLF001  # who calls
            return compiled
        with Suppressed(Exception):  # a program that cannot be watched runs all the same
            created = executables.newest_since(count)
            if created is not None:
                found = watch(compiled)
                found.__class__ = WatchedProgram
                found.compiled_ahead(created)
                return found
        return compiled

    return replace(lowered, {"compile": compiling})
