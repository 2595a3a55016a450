"""Makes a recording and ends it early where it gets too many events, or where something is compiled."""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

from jaxobs.jax_compat.runtime import jaxlib_version
from jaxobs.model.clock import monotonic
from jaxobs.plugin.protocol import Job
from jaxobs_plugins.probes.profiler.event_memory import Allocated, EventMemory
from jaxobs_plugins.probes.profiler.recording import Recorded, record
from jaxobs_plugins.probes.profiler.scheduling import FIRST_SCHEDULED
from jaxobs_plugins.probes.profiler.session_lock import SessionLock

GLIMPSES = (0.002, 0.02)
"""Seconds of two glimpses that precede a window while the rate of operations on a CPU is unknown; their traces are
thrown away. A loop of 5 million operations a second fills the first with 13 000, and the second is then not made. GPUs
need no such glimpses: they run what is launched, one or two hundred thousand a second,
and a session takes longer to begin."""

FIRST_LOOK, LOOK = 0.002, 0.02
"""Seconds between two looks at the events' memory, doubling from the first to the second value. A look takes up to
0.5 ms beside the job, a fortieth of the latter."""

LOOKS_BEFORE, LOOK_BEFORE = 10, 0.004
"""Number and spacing in seconds of looks at memory before a recording, because a step's arrays come and go."""

HELD = 32 * 2**20
"""Bytes of memory that the events of a scheduled window may hold: 120 000 to 270 000 events, 0.3 to 1 s of `stop()`.
Windows are planned for a third of that at most; the limit is for a job that suddenly runs something else."""

UNWATCHED = 0.1
"""Longest scheduled window, in seconds, on a CPU where memory does not show the number of events (malloc is slow, say):
five million operations a second make half a million events in it, and one to three seconds of `stop()`."""

REFUSED = 3
"""Multiple of the allowed memory beyond which the trace is thrown away; reached only where no look came in time."""


class Ended(Enum):
    """Why a recording ended."""

    WHOLE = "it took as long as it was to take"
    OTHERS = "somebody else wants the profiler, or all is over"
    EVENTS = "it had too many events"
    COMPILED = "something was compiled"
    REFUSED = "it had far too many events, and was thrown away"


class Look(NamedTuple):
    """A recording, why it ended, how many steps ended during it, and an upper bound of its events' memory in bytes."""

    recorded: Recorded
    ended: Ended
    steps: int
    held: int
    asking: float
    """Processor time of the queries of malloc, before the recording too; threads of the job may have waited as long."""


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
        """Measure what the job has allocated, before each `look`. False where somebody else wants the profiler."""
        self._asked_before = self._allocated.seconds
        self._memory.begin()
        for _ in range(LOOKS_BEFORE):
            if not self._session_lock.record(LOOK_BEFORE):
                return False
            self._memory.again()
        return True

    def look(self, length: float, held: int, *, modules: bool, until_compiled: bool) -> Look:
        """Record for `length` seconds, or until the events hold more than `held` bytes of memory.

        With `until_compiled`, a compile ends it too. Raises OtherSession, and what JAX's profiler raises.
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
    """Whether the job computes on CPUs and jaxlib records each operation there. Call it only once JAX has a backend."""
    import jax

    return jax.default_backend() == "cpu" and jaxlib_version() >= FIRST_SCHEDULED
