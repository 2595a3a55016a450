"""The line of the user's program that made JAX compile."""

from __future__ import annotations

from types import FrameType
from typing import NamedTuple

from jaxobs.model.source_files import is_installed

NOT_THE_USERS = frozenset({"jax", "jaxlib", "jaxobs", "jaxobs_plugins", "flax", "equinox", "haiku", "chex"})
"""Packages whose frames are passed over: JAX, ourselves, and libraries that wrap `jax.jit` and call it for the user."""

PROGRAMS = "jaxobs.cli."
"""The commands are no layer over JAX: what they run, the demonstration, is a program like a user's."""

FRAMES = 200


class CallSite(NamedTuple):
    """Line `line` of `file`, in `function`."""

    file: str
    line: int
    function: str


def call_site(frame: FrameType | None) -> CallSite | None:
    """The innermost frame outside installed packages; where there is none, the innermost that is no layer over JAX.

    So it is the line that calls Keras's `fit`, and in a program that is itself installed the program's own.
    """
    layer: CallSite | None = None
    for _ in range(FRAMES):
        if frame is None:
            break
        if not _is_a_layer_over_jax(frame):
            code = frame.f_code
            if not is_installed(code.co_filename):
                return CallSite(code.co_filename, frame.f_lineno, code.co_qualname)
            layer = layer or CallSite(code.co_filename, frame.f_lineno, code.co_qualname)
        frame = frame.f_back
    return layer


def _is_a_layer_over_jax(frame: FrameType) -> bool:
    module = frame.f_globals.get("__name__")
    package = module.partition(".")[0] if type(module) is str else ""
    return package in NOT_THE_USERS and not str(module).startswith(PROGRAMS)
