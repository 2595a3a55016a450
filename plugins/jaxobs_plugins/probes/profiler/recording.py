"""Runs one profiler session of ours: begins it, lets it record, takes its trace. Only here is JAX's profiler called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxobs.model.clock import now

SMALL = 2**20
"""Bytes below which a trace is searched for operations: the search holds the interpreter lock, 0.2 ms for 1 MB."""

MARKS_OF_OPERATIONS = (b"hlo_op", b"/device:")
"""The name of a stat that every operation on a CPU has, and the beginning of every device plane's name."""


class Recorded(NamedTuple):
    """A session's times in nanoseconds, and its trace.

    Starting lasted from `starting` to `start`, recording to `end`, stopping to `stopped`. `xspace` is None where the
    trace was thrown away.
    """

    starting: int
    start: int
    end: int
    stopped: int
    xspace: bytes | None


class OtherSession(Exception):  # noqa: N818  # no fault: the profiler is taken
    """Another session is under way that we cannot see: a remote capture, say."""


def record(module: Any, session_type: Any, wait: Callable[[], bool], *, modules: bool = True) -> Recorded:
    """Record while `wait` waits. If it returns False the trace is thrown away, which is much faster than taking it.

    `modules`: add the modules of all executables to it. Raises OtherSession, and whatever else JAX's profiler raises.
    """
    options = module.ProfileOptions()
    options.python_tracer_level = 0  # each Python call would be an event
    # Step annotations and a CPU's operations; level 2 adds a tenth, and nothing that we read.
    options.host_tracer_level = 1
    options.enable_hlo_proto = modules
    starting = now()
    session = session_type(options)
    start = now()
    wanted = False
    xspace: bytes | None = None
    try:
        wanted = wait()
    finally:
        end = now()
        if wanted:
            try:
                xspace = session.stop()
            except Exception as error:
                if "ALREADY_EXISTS" in str(error):
                    raise OtherSession(str(error)) from None
                raise
        del session
    return Recorded(starting, start, end, now(), xspace)


def is_empty(xspace: bytes) -> bool:
    """Whether a trace below SMALL bytes has no operation; larger ones are taken to have some."""
    return len(xspace) < SMALL and not any(mark in xspace for mark in MARKS_OF_OPERATIONS)
