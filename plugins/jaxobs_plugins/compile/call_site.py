"""The line of the user's program that made JAX compile."""

from __future__ import annotations

from types import FrameType
from typing import NamedTuple

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
    """The innermost frame that is the user's own."""
    for _ in range(FRAMES):
        if frame is None:
            return None
        module = frame.f_globals.get("__name__")
        package = module.partition(".")[0] if type(module) is str else ""
        if package not in NOT_THE_USERS or str(module).startswith(PROGRAMS):
            return CallSite(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname)
        frame = frame.f_back
    return None
