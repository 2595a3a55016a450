"""Finds the line of the user's program that made JAX compile."""

from __future__ import annotations

from types import FrameType
from typing import NamedTuple

from jaxobs.model.source_files import is_installed

NOT_THE_USERS = frozenset({"jax", "jaxlib", "jaxobs", "jaxobs_plugins", "flax", "equinox", "haiku", "chex"})
"""Packages whose frames are skipped: JAX, jaxobs, and libraries that wrap `jax.jit` and call it for the user."""

PROGRAMS = "jaxobs.cli."
"""Prefix of our modules whose frames count as a user's program: the demonstration that a command runs."""

FRAMES = 200


class CallSite(NamedTuple):
    """A place in the source: line `line` of `file`, in `function`."""

    file: str
    line: int
    function: str


def call_site(frame: FrameType | None) -> CallSite | None:
    """The innermost frame outside installed packages, or else the innermost outside layers over JAX.

    The former is the line that calls Keras's `fit`, for example; the latter is the
    program's own in an installed program.
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
