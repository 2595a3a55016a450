"""Reads Python stacks: that of another thread, and the line of the user's program that made a call."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator
from types import FrameType
from typing import NamedTuple

from jaxobs.model.source_files import is_installed
from jaxobs.vocabulary.text import OUTSIDE_JIT

NOT_THE_USERS = frozenset({"jax", "jaxlib", "jaxobs", "jaxobs_plugins", "flax", "equinox", "haiku", "chex"})
"""Packages whose frames are skipped: JAX, jaxobs, and libraries that wrap `jax.jit` and call it for the user."""

PROGRAMS = "jaxobs.cli."
"""Prefix of our modules whose frames count as a user's program: the demonstration that a command runs."""

MAX_FRAMES = 200

UNSAFE_WITH_COLLECTOR = sys.version_info < (3, 12)
"""Whether making a frame object may run the garbage collector (until Python 3.12), and with it code of the user's that
lets other threads run: the frame of another thread may then have returned, and its object points into freed memory."""

INTERPRETERS = frozenset({"_interpreters", "_xxsubinterpreters"})
"""Modules of Python 3.13 and 3.12 by which a job makes further interpreters, each with a lock of its own.
`sys._current_frames()` makes frame objects for their threads too, which run meanwhile, and would end the process."""


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """A context in which frames of another thread, or of a suspended coroutine, may be made: see UNSAFE_WITH_COLLECTOR.

    It lasts for some ten microseconds, in which Python normally switches to no other thread.
    """
    if not UNSAFE_WITH_COLLECTOR or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def stack_of(thread: int | None, max_frames: int) -> list[FrameType]:
    """The frames of another thread, the innermost first; empty if it runs no Python, or if no thread may be read.

    The stack of another thread is read only through this function.
    """
    if not INTERPRETERS.isdisjoint(sys.modules):
        return []
    with collector_paused():
        innermost = sys._current_frames().get(thread or 0)  # noqa: SLF001  # documented, for all its name
        return list(callers(innermost, max_frames))


def running_python() -> list[int]:
    """The threads that run Python, by what `threading.get_ident()` returns on them; none if none may be read."""
    if not INTERPRETERS.isdisjoint(sys.modules):
        return []
    with collector_paused():
        return list(sys._current_frames())  # noqa: SLF001  # documented, for all its name


def callers(frame: FrameType | None, max_frames: int) -> Iterator[FrameType]:
    """A frame of the calling thread and those that called it, the innermost first."""
    while frame is not None and max_frames > 0:
        yield frame
        frame, max_frames = frame.f_back, max_frames - 1


class CallSite(NamedTuple):
    """A place in the source: line `line` of `file`, in `function`."""

    file: str
    line: int
    function: str

    def names(self, loop: str) -> str:
        """The name of a loop of `jax.lax` that this line calls outside jit: `scan at train.py:12`."""
        return f"{loop}{OUTSIDE_JIT}{self.file.rpartition('/')[2]}:{self.line}"


def call_site(frame: FrameType | None) -> CallSite | None:
    """The innermost frame outside installed packages, or else the innermost outside layers over JAX.

    The former is the line that calls Keras's `fit`, for example; the latter is the
    program's own in an installed program.
    """
    layer: CallSite | None = None
    for caller in callers(frame, MAX_FRAMES):
        if not _is_a_layer_over_jax(caller):
            code = caller.f_code
            site = CallSite(code.co_filename, caller.f_lineno, code.co_qualname)
            if not is_installed(code.co_filename):
                return site
            layer = layer or site
    return layer


def _is_a_layer_over_jax(frame: FrameType) -> bool:
    module = frame.f_globals.get("__name__")
    package = module.partition(".")[0] if type(module) is str else ""
    return package in NOT_THE_USERS and not str(module).startswith(PROGRAMS)
