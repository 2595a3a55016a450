"""One recording, watched while it lasts: it ends early where it gets too many events, or the job becomes another one."""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

from jaxobs.jax_compat.backend import jaxlib_version
from jaxobs.model.clock import monotonic
from jaxobs.plugin.protocol import Job
from jaxobs_plugins.probes.profiler.event_memory import Allocated, EventMemory
from jaxobs_plugins.probes.profiler.recording import Recorded, record
from jaxobs_plugins.probes.profiler.scheduling import FIRST_SCHEDULED
from jaxobs_plugins.probes.profiler.session_lock import SessionLock

GLIMPSES = (0.002, 0.02)
"""Seconds. Where nobody knows yet how many operations a second a CPU runs, two glimpses come first, whose traces are
thrown away: a loop of 5 million a second fills the first with 13 000, the second is not made then. A GPU runs as
many as are launched, a hundred thousand or two a second; and there each session takes longer than that to begin."""

FIRST_LOOK, LOOK = 0.002, 0.02
"""Seconds between two looks, doubling from the one to the other: what a look takes (up to 0.5 ms, beside the job) is a
fortieth of it."""

LOOKS_BEFORE, LOOK_BEFORE = 10, 0.004
"""How often, and how many seconds apart, memory is looked at before a recording: a step's arrays come and go."""

HELD = 32 * 2**20
"""Bytes that the events of a scheduled window may hold: 120 000 to 270 000, 0.3 to 1 s of `stop()`. Windows are planned
to hold a third of that at most; this is for a job that is suddenly another one."""

UNWATCHED = 0.1
"""Seconds of a scheduled window at most where memory does not tell how many events it has, because malloc is slow, say:
five million operations a second are half a million events, and one to three seconds of `stop()`."""

REFUSED = 3
"""With so many times as much, because no look came in time, the trace is not taken at all."""


class Ended(Enum):
    """Why a recording was over."""

    WHOLE = "it took as long as it was to take"
    OTHERS = "somebody else wants the profiler, or all is over"
    EVENTS = "it had too many events"
    COMPILED = "something was compiled"
    REFUSED = "it had far too many events, and was thrown away"


class Look(NamedTuple):
    """What was recorded, why it ended, how many steps ended in it, and bytes that its events held at most."""

    recorded: Recorded
    ended: Ended
    steps: int
    held: int
    asking: float
    """Seconds in which malloc was asked, before it too: threads of the job may have waited as long."""


class Recorder:
    """Makes recordings on the worker's thread; `session_type` is jaxlib's own class."""

    def __init__(self, job: Job, module: Any, session_type: Any, session_lock: SessionLock) -> None:
        self._job = job
        self._module = module
        self._session_type = session_type
        self._session_lock = session_lock
        self._allocated = Allocated()
        self._memory = EventMemory(self._allocated)
        self._asked_before = 0.0

    def prepare(self) -> bool:
        """Before each `look`: what the job itself has allocated. False where somebody else wants the profiler."""
        self._asked_before = self._allocated.seconds
        self._memory.begin()
        for _ in range(LOOKS_BEFORE):
            if not self._session_lock.record(LOOK_BEFORE):
                return False
            self._memory.again()
        return True

    def look(self, length: float, held: int, *, modules: bool, until_compiled: bool) -> Look:
        """Record for `length` seconds, or until the events hold more than `held` bytes.

        `until_compiled`: or until something is compiled. Raises OtherSession, and what JAX's profiler raises.
        """
        if until_compiled and not self._memory.tells and sees_a_cpu():
            length = min(length, UNWATCHED)
        before = self._job.progress()
        ended, grown, steps = Ended.OTHERS, 0, 0

        def wait() -> bool:
            nonlocal ended, grown, steps
            compiled = before.compiled if until_compiled else None
            ended = self._watch(length, held, compiled)
            grown = self._memory.grown()
            steps = self._job.progress().steps - before.steps
            if ended is not Ended.OTHERS and grown > REFUSED * held:
                ended = Ended.REFUSED
            return ended not in (Ended.OTHERS, Ended.REFUSED)

        recorded = record(self._module, self._session_type, wait, modules=modules)
        if recorded.xspace is not None:
            self._memory.learn(len(recorded.xspace))
        return Look(recorded, ended, steps, grown, self._allocated.seconds - self._asked_before)

    def _watch(self, length: float, held: int, compiled: int | None) -> Ended:
        until = monotonic() + length
        pause = FIRST_LOOK
        while (left := until - monotonic()) > 0:
            if not self._session_lock.record(min(left, pause)):
                return Ended.OTHERS
            pause = min(2 * pause, LOOK)
            if self._memory.grown() > held:
                return Ended.EVENTS
            if compiled is not None and self._job.progress().compiled != compiled:
                return Ended.COMPILED
        return Ended.WHOLE


def sees_a_cpu() -> bool:
    """Whether the job computes on CPUs, and each operation is an event. Asked when JAX has a backend already."""
    import jax

    return jax.default_backend() == "cpu" and jaxlib_version() >= FIRST_SCHEDULED
