"""Records one profiler session of ours, with a hard cap on its events. Only here does jaxobs call JAX's profiler.

JAX allows one session at a time, and the user's have precedence over ours: when two overlap, the second one's
constructor succeeds and its `stop()` raises, so the user would lose a trace.

JAX's profiler does not limit the events of a host, and its options have no limit that a CPU heeds; `stop()` takes 1 to
2 s after 100 000 to 190 000 events. So a recording is short until it is known how many events a second the job makes,
and a longer one on a CPU is watched: an event is held in 120 to 270 bytes of malloc's memory until `stop()`. When what
the process has allocated has grown by more than MAX_HELD beyond what it had in the step before, the trace is thrown
away, which takes no time.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

from jaxobs.model.clock import monotonic, now, process_time, thread_time
from jaxobs.proto.wire_format import LENGTH, FieldError, fields

UNWATCHED_SECONDS = 0.1
"""Longest scheduled recording on a CPU once it is known that it cannot be watched: five million operations a second make
half a million events in it. The one in which malloc turns out to be slow is not cut short."""

LOOK_SECONDS = 0.02
LOOK_SHARE = 0.2
"""Least seconds between two looks while recording, and the largest share of a processor that they may take. To answer
one, malloc walks its lists of free blocks, and threads of the job that allocate wait meanwhile: 0.03 to 0.5 ms in most
jobs, 5 to 19 ms in one of 700 MB on Python 3.13 that had compiled a transformer twice."""

MAX_LOOK_SECONDS = LOOK_SHARE * UNWATCHED_SECONDS
"""Processor time of a look after which there are no more: between two of them nothing is watched."""

LOOKS, MAX_STEP_SECONDS = 16, 2.0
"""Looks in one step before a recording, and the longest step that they are spread over: what the job allocates and frees
in each step, such as new weights beside the old ones, is no event's. XLA's arrays of a CPU are malloc's. Arrays that are
there for a third of each step are missed by all of them once in 700 times."""

IN_A_ROW = 3
"""Looks in a row at which there must be too much, for the same reason: events stay, and such arrays do not."""

MAX_HELD = 96 * 2**20
"""Bytes by which malloc's memory may grow beyond that during a recording: 350 000 to 800 000 events."""

HELD_A_TRACED_BYTE = 5.0
"""Bytes of memory for each byte of trace: measured 4.7 for an operation in a loop, 5.6 for a tiny call."""

SMALL = 2**20
"""Bytes below which a trace, its modules apart, is searched for operations: that holds the interpreter lock, 0.2 ms for
1 MB."""

PLANE_OF_MODULES, NAME_WITHIN = b"/host:metadata", 64
"""The plane of the modules, which may be many megabytes, and the bytes within which a plane has its name: its number,
where it has one, comes before."""

MARK_OF_OPERATIONS, DEVICE_PLANE = b"hlo_op", b"/device:"
"""The name of a stat that every operation on a CPU has, and the beginning of every device plane's name."""

LINES = 3 << 3 | LENGTH
"""The key of a plane's lines. Each GPU has a plane, and one that recorded nothing has none (openxla/xla,
xla/backends/profiler/gpu/cupti_collector.cc, ``Export``)."""


class SessionLock:
    """Lock between our thread, which records, and the user's threads, which begin and end sessions of their own."""

    def __init__(self) -> None:
        # `with` takes the lock itself and not the condition, whose `__enter__` is Python code: a signal handler that
        # raises within it would leave the lock taken.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._ours = False
        self.users: set[int] = set()
        """The user's sessions that are under way or about to begin, each by its number."""
        self.stopped = False

    def begin_ours(self) -> bool:
        """Claim the profiler for a session of ours. False if the user has a session, or is about to."""
        with self._lock:
            if self.users or self.stopped:
                return False
            self._ours = True
            return True

    def record(self, seconds: float) -> bool:
        """Wait while our session records for `seconds`. False as soon as the user wants a session, or after `stop`."""
        with self._lock:
            return not self._changed.wait_for(lambda: self.users or self.stopped, seconds)

    def end_ours(self) -> None:
        with self._lock:
            self._ours = False
            self._changed.notify_all()

    def user_comes(self, session: int, patience: float) -> None:
        """Announce a session of the user's, and wait for ours to end, at most `patience` seconds."""
        with self._lock:
            # First: Ctrl-C may come during the wait, and `user_goes` then takes it back.
            self.users.add(session)
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._ours, patience)

    def user_goes(self, session: int) -> None:
        with self._lock:
            self.users.discard(session)

    def stop(self) -> None:
        """Let no session of ours begin any more, and end the one under way at once."""
        with self._lock:
            self.stopped = True
            self._changed.notify_all()


class Ended(Enum):
    """Why a recording ended."""

    WHOLE = "it took as long as it was to take"
    OTHERS = "somebody else wants the profiler, or all is over"
    REFUSED = "it had far too many events, and was thrown away"


class Recorded(NamedTuple):
    """A session's times in nanoseconds, why it ended, and its trace.

    Starting lasted from `starting` to `start`, recording to `end`, stopping to `stopped`. `xspace` is None if the
    trace was thrown away.
    """

    starting: int
    start: int
    end: int
    stopped: int
    ended: Ended
    xspace: bytes | None


class OtherSession(Exception):  # noqa: N818  # no fault: the profiler is taken
    """Another session is under way that we cannot see: a remote capture, say."""


def record(module: Any, session_type: Any, watch: Callable[[], Ended], *, modules: bool = True) -> Recorded:
    """Record while `watch` waits. By what it returns the trace is taken, or thrown away, which is much faster.

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
    ended, xspace = Ended.OTHERS, None
    try:
        ended = watch()
    finally:
        end = now()
        if ended is Ended.WHOLE:
            try:
                xspace = session.stop()
            except Exception as error:
                if "ALREADY_EXISTS" in str(error):
                    raise OtherSession(str(error)) from None
                raise
        del session
    return Recorded(starting, start, end, now(), ended, xspace)


def usually_allocated(lock: SessionLock, step: float | None, allocated: Allocated) -> int | None:
    """The most bytes that malloc has given out in a step of so many seconds; None if that is not known.

    Nor is it where the user wants a session meanwhile.
    """
    pause = max(allocated.pause, min(step or 0.0, MAX_STEP_SECONDS) / LOOKS)
    most = 0
    for number in range(LOOKS):
        held = allocated()
        uneven = pause * (0.5 + number / LOOKS)  # steps may be as far apart as even looks
        if held is None or not lock.record(uneven):
            return None
        most = max(most, held)
    return most


def watched(lock: SessionLock, seconds: float, allocated: Allocated, most: int | None) -> Ended:
    """Wait while our session records for `seconds`, and say why that ended.

    It is refused when more than `most` bytes are `allocated` at IN_A_ROW looks; None: nothing is looked at.
    """
    if most is None:
        return Ended.WHOLE if lock.record(seconds) else Ended.OTHERS
    above, until = 0, monotonic() + seconds
    while (left := until - monotonic()) > 0:
        if not lock.record(min(left, allocated.pause)):
            return Ended.OTHERS
        above = above + 1 if (allocated() or 0) > most else 0
        if above == IN_A_ROW:
            return Ended.REFUSED
    return Ended.WHOLE


def worked(lock: SessionLock, seconds: float) -> Ended:
    """Wait `seconds` while our session records, and until the process had a processor so long, UNWATCHED_SECONDS at most.

    In a moment in which the job slept, or others had the processors, its rate of events would be far too low.
    """
    before, until = process_time(), monotonic() + UNWATCHED_SECONDS
    while lock.record(seconds):
        if process_time() - before >= seconds or monotonic() >= until:
            return Ended.WHOLE
    return Ended.OTHERS


def is_empty(xspace: bytes) -> bool:
    """Whether a trace has no operation. One that has SMALL bytes besides its modules is taken to have some."""
    searched, whole = 0, memoryview(xspace)
    try:
        for _, _, begin, end in fields(whole):
            beginning = xspace[begin : min(begin + NAME_WITHIN, end)]
            if PLANE_OF_MODULES in beginning:
                continue
            if DEVICE_PLANE in beginning and any(key == LINES for key, *_ in fields(whole[begin:end])):
                return False
            searched += end - begin
            if searched >= SMALL or xspace.find(MARK_OF_OPERATIONS, begin, end) >= 0:
                return False
    except FieldError:
        return False  # the agent says what is wrong with it
    return True


class Allocated:
    """Called, returns the bytes that malloc has allocated; None if malloc is slow or not that of glibc 2.33 or newer."""

    def __init__(self) -> None:
        self._ask = _mallinfo2()
        self.pause = LOOK_SECONDS
        """Seconds until the next look, by what the last one took."""

    @property
    def tells(self) -> bool:
        return self._ask is not None

    def __call__(self) -> int | None:
        if self._ask is None:
            return None
        began = thread_time()
        held = self._ask()
        took = thread_time() - began
        self.pause = max(LOOK_SECONDS, took / LOOK_SHARE)
        if took > MAX_LOOK_SECONDS:
            self._ask = None
        return held


class _Mallinfo2(ctypes.Structure):
    """`struct mallinfo2` of malloc.h: ten amounts, of which the eighth is what is allocated."""

    _fields_ = [
        ("before", ctypes.c_size_t * 7),
        ("uordblks", ctypes.c_size_t),
        ("after", ctypes.c_size_t * 2),
    ]


def _mallinfo2() -> Callable[[], int] | None:
    """A function that returns the bytes in use in all of glibc's arenas, and releases the interpreter lock meanwhile.

    None if the C library has no such function, or if memory comes from another malloc, such as that of a preloaded
    tcmalloc: glibc's would then tell that nothing is allocated.
    """
    try:
        libc = ctypes.CDLL("libc.so.6")
        function = libc.mallinfo2
        mallocs = {ctypes.cast(each.malloc, ctypes.c_void_p).value for each in (libc, ctypes.CDLL(None))}
    except (AttributeError, OSError):  # no such function
        return None
    if len(mallocs) > 1:
        return None
    function.restype = _Mallinfo2
    function.argtypes = []
    return lambda: int(function().uordblks)
