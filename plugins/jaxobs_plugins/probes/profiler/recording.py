"""One profiler session of ours: begin it, let it record, take its trace. The only calls into JAX's profiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxobs.model.clock import now

SMALL = 2**20
"""Only in a trace below this size is it looked for operations: searching holds the interpreter lock, 0.2 ms for 1 MB."""

MARKS_OF_OPERATIONS = (b"hlo_op", b"/device:")
"""A stat of every operation on a CPU, and the beginning of every device plane's name."""


class Recorded(NamedTuple):
    """When it recorded, and when starting and stopping began and ended (nanoseconds); `xspace` is None if cut off."""

    starting: int
    start: int
    end: int
    stopped: int
    xspace: bytes | None


class OtherSession(Exception):  # noqa: N818  # no fault: the profiler is taken
    """Somebody whom we cannot see has a session: a remote capture, say."""


def record(module: Any, session_type: Any, wait: Callable[[], bool], *, modules: bool = True) -> Recorded:
    """Record while `wait` waits; where it returns False the trace is thrown away, which is much faster than taking it.

    `modules`: put the modules of all executables into it. Raises OtherSession, and whatever else JAX's profiler raises.
    """
    options = module.ProfileOptions()
    options.python_tracer_level = 0  # each Python call would be an event
    options.host_tracer_level = (
        1  # step annotations and a CPU's operations; 2 adds a tenth and nothing that is read
    )
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
    """Whether a trace holds no operation, as far as a quick look can tell."""
    return len(xspace) < SMALL and not any(mark in xspace for mark in MARKS_OF_OPERATIONS)
