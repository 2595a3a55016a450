"""Probe `compile`: reports what JAX traces, lowers and compiles, how long each phase took, and the executable.

JAX calls its listeners when a phase begins and ends, on the thread that compiles. Nothing is traced or compiled a
second time: the executable is the one that JAX has just made. Serialising its module is the only work done here that
could delay the job, and the only work that cannot be done later.

What a function is compiled for is noted when its trace and its lowering begin, and compared with its earlier compiles
once the executable exists (`causes.py`); this gives each recompile its cause.
"""

from __future__ import annotations

import functools
import sys
import threading
from dataclasses import dataclass
from types import FrameType
from typing import Any, cast

from jaxobs.jax_compat import pmap as jax_pmap
from jaxobs.jax_compat.compiling import (
    CACHE_ASKED,
    CACHE_HIT,
    CACHE_READ,
    PHASES,
    control_flow_outside_jit,
    lowered_by_jax,
    new_executable,
    traced_function,
)
from jaxobs.jax_compat.memory import memory_of
from jaxobs.jax_compat.runtime import is_listening, persistent_cache_is_on, unregister_listeners
from jaxobs.model.clock import NANOSECONDS, now
from jaxobs.model.events import (
    CACHE_SECONDS_SAVED,
    Compilation,
    CompilePhaseEnded,
    CompilePhaseStarted,
    ExecutableCreated,
    Measured,
)
from jaxobs.model.metrics import metric
from jaxobs.plugin.base import Probe
from jaxobs.plugin.frames import call_site
from jaxobs.plugin.guard import Suppressed, described, raised_by_signal_handler
from jaxobs.plugin.protocol import Hook, Job
from jaxobs.plugin.span_context import current_span_context
from jaxobs.vocabulary.text import EAGER, cut_name
from jaxobs_plugins.probes.compile.causes import NO_CAUSE, Causes


@dataclass(slots=True)
class Phase:
    """A phase under way; `inner` is the time of the phases nested in it so far, in nanoseconds."""

    name: str
    function: str
    start: int
    inner: int = 0


class ThreadState(threading.local):
    """The phases under way on one thread, and those that ended since its last executable."""

    def __init__(self) -> None:
        self.stack: list[Phase] = []
        self.ended: dict[tuple[str, str], tuple[int, int]] = {}
        self.eager: set[str] = set()
        self.pmapped: dict[str, str] = {}
        self.cache = "off"
        self.saved: float | None = None
        self.began_anew = 0


def module_of(executable: Any, limit: int) -> tuple[bytes | None, str]:
    """The serialised `HloModuleProto` and an empty reason, or None and the reason; `limit` in bytes."""
    try:
        proto: bytes = executable.hlo_modules()[0].as_serialized_hlo_module_proto()
    except Exception as error:  # a backend that does not give its modules
        if raised_by_signal_handler(error):  # a large module takes seconds
            raise
        return None, f"the backend gave no module: {described(error)}"[:200]
    if len(proto) > limit:
        return None, f"the module has {len(proto)} bytes, more than JAXOBS_MAXIMUM_MODULE_BYTES={limit}"
    return proto, ""


def local_devices_of(executable: Any) -> int:
    """The number of this process's devices that an executable runs on."""
    with Suppressed(Exception):  # as above; an executable runs on one device at least
        return len(executable.local_devices())
    return 1


CACHE_SAVED = "/jax/compilation_cache/compile_time_saved_sec"
CACHE_OUTCOMES = {CACHE_ASKED: "request", CACHE_HIT: "hit", "/jax/compilation_cache/cache_misses": "written"}
CACHE_REQUESTS = metric(
    "jaxobs_persistent_cache_requests_total{outcome}",
    "Outcomes of JAX's persistent compilation cache: requests, hits, and entries written after a miss",
)


class CompileProbe(Probe):
    """Listens to JAX's compile events; see the module's docstring."""

    metrics = (CACHE_REQUESTS,)

    def __init__(self) -> None:
        self._job: Job | None = None
        self._thread = ThreadState()
        self._causes = Causes()
        self._began_anew = 0
        self._registering = threading.RLock()

    def start(self, job: Job) -> None:
        self._job = job
        self._on_event = job.guard(self._event)
        self._on_start = job.guard(self._or_begin_anew(self._phase_began))
        self._on_duration = job.guard(self._or_begin_anew(self._duration))
        self._register()
        for outcome in CACHE_OUTCOMES.values():
            job.emit(Measured(CACHE_REQUESTS.name, (outcome,), 0.0, now()))

    def sample(self) -> None:
        """Put the listeners back if somebody called `jax.monitoring.clear_event_listeners()`."""
        with self._registering:  # also asked where recompilations are judged
            if self._job is not None and not is_listening(self._on_duration):
                unregister_listeners(self._on_event, self._on_duration, self._on_start)
                self._began_anew += 1
                self._register()
                self._job.listeners_restored()

    def stop(self) -> None:
        if self._job is not None:
            unregister_listeners(self._on_event, self._on_duration, self._on_start)
            self._end_phases(self._job)
            self._job = None
            self._thread, self._causes = ThreadState(), Causes()

    def _register(self) -> None:
        from jax import monitoring

        monitoring.register_event_listener(self._on_event)
        monitoring.register_event_duration_secs_listener(self._on_duration)
        monitoring.register_scalar_listener(self._on_start)

    def _event(self, event: str, **_: Any) -> None:
        outcome = CACHE_OUTCOMES.get(event)
        if outcome is None or self._job is None or not persistent_cache_is_on():
            return  # JAX reports requests even where there is no cache
        self._thread.cache = {"request": "miss", "hit": "hit"}.get(outcome, self._thread.cache)
        self._job.emit(Measured(CACHE_REQUESTS.name, (outcome,), 1.0, now()))

    def _phase_began(self, event: str, value: float, **labels: Any) -> None:  # noqa: ARG002  # JAX passes it
        phase = PHASES.get(event)
        if phase is None or self._job is None:
            return
        at = now()
        stack = self._stack(self._job)
        try:
            if phase == "trace":
                self._job.trace_began()
            function = self._function(str(labels.get("fun_name", "")), phase)
            if function != EAGER:
                frame = sys._getframe(1)  # noqa: SLF001  # the public way to a frame
                if phase == "lower":
                    self._causes.lowering_began(function, frame)
                elif phase == "backend":
                    self._causes.compiling_began(function, frame)
                elif phase == "trace" and not stack:
                    self._causes.trace_began(function, frame)
            stack.append(Phase(phase, function, at))
        except BaseException:  # the end of a phase that is not on the stack is ignored
            if phase == "trace":
                self._job.trace_ended()
            raise
        if len(stack) == 1:
            self._job.emit(CompilePhaseStarted(function, phase, threading.get_ident(), at))

    def _duration(self, event: str, duration_secs: float, **_: Any) -> None:
        if self._job is None:
            return
        if event == CACHE_READ:
            self._cache_was_read(self._job, int(duration_secs * NANOSECONDS))
        elif event == CACHE_SAVED:
            self._thread.saved = duration_secs
        phase = PHASES.get(event)
        stack = self._stack(self._job)
        if phase is None or not stack or stack[-1].name != phase:
            return  # the phase began before the listeners were registered
        ended = stack[-1]
        end = now()
        if phase == "trace":
            self._job.trace_ended()
        stack.pop()
        total = end - ended.start
        if stack:
            stack[-1].inner += total
        self._thread.ended[phase, ended.function] = (ended.start, end)
        self._phase_ended(self._job, ended, end, outermost=not stack)
        if phase == "backend":
            # Frames from here: this one, the guard's two, JAX's record_…, the context
            # manager's __exit__, then the one wanted.
            executable = new_executable(sys._getframe(1))  # noqa: SLF001  # the public way to a frame
            if executable is not None:
                self._executable_made(self._job, executable, ended.function, end)
            self._thread.cache, self._thread.saved = "off", None

    def _or_begin_anew(self, hook: Hook) -> Hook:
        """Wrap a hook so that its failure discards the phases under way.

        A failed hook may have left a phase open, and the guard may withhold the event that ends it.
        """

        @functools.wraps(hook)
        def reliable(*args: Any, **labels: Any) -> None:
            try:
                hook(*args, **labels)
            except BaseException:
                self._began_anew += 1
                raise

        return cast("Hook", reliable)

    def _stack(self, job: Job) -> list[Phase]:
        """The phases under way on this thread; emptied first if listening was interrupted since they began."""
        thread = self._thread
        if thread.began_anew != self._began_anew:
            thread.began_anew = self._began_anew
            self._end_phases(job)
        return thread.stack

    def _end_phases(self, job: Job) -> None:
        """Forget the phases under way on this thread."""
        for phase in self._thread.stack:
            if phase.name == "trace":
                job.trace_ended()
        self._thread.stack.clear()

    def _phase_ended(self, job: Job, phase: Phase, end: int, *, outermost: bool) -> None:
        thread, exclusive = threading.get_ident(), max(0, end - phase.start - phase.inner)
        job.emit(
            CompilePhaseEnded(phase.function, phase.name, thread, phase.start, end, exclusive, outermost)
        )

    def _cache_was_read(self, job: Job, duration: int) -> None:
        stack = self._thread.stack
        if not stack:
            return
        end = now()
        stack[-1].inner += duration
        read = Phase("cache_read", stack[-1].function, end - duration)
        self._thread.ended["cache_read", read.function] = (read.start, end)
        self._phase_ended(job, read, end, outermost=False)

    def _function(self, name: str, phase: str) -> str:
        """The jitted or pmapped function's name: `jit(step)` and `step` are one; JAX's own compiles are `(eager)`.

        A loop or conditional of `jax.lax` outside jit is a program of the user's and is named with its line.
        Only the listener itself may call this: JAX's frames are sought from its caller on.
        """
        inner = name[name.index("(") + 1 : -1] if name.endswith(")") and "(" in name else name
        frame = sys._getframe(2)  # noqa: SLF001  # the public way to a frame
        eager, pmapped = self._thread.eager, self._thread.pmapped
        call = jax_pmap.call_of_pmap(frame)
        mapped = jax_pmap.mapped_name(call) if call is not None else None
        if mapped is not None:
            pmapped[inner] = cut_name(mapped)
            return pmapped[inner]
        own = lowered_by_jax(frame) if phase == "lower" else None
        if phase == "trace":
            module = str(getattr(traced_function(frame), "__module__", "") or "")
            own = module.partition(".")[0] == "jax"
            pmapped.pop(inner, None)
        if own is not None:
            (eager.add if own else eager.discard)(inner)
        # A pmapped function that is compiled ahead of time, or by `jax.grad` outside pmap, still has JAX's name for it.
        return pmapped.get(inner) or (_eager(inner, frame) if inner in eager else cut_name(inner) or EAGER)

    def _executable_made(self, job: Job, executable: Any, function: str, at: int) -> None:
        thread = self._thread
        number = job.executable_number()
        phases = tuple(
            (phase, *thread.ended.pop((phase, function)))
            for phase in ("trace", "lower", "backend", "cache_read")
            if (phase, function) in thread.ended
        )
        thread.ended.clear()
        cause, attributes, definition = NO_CAUSE if function == EAGER else self._causes.explained(function)
        if thread.saved is not None:
            attributes += ((CACHE_SECONDS_SAVED, thread.saved),)
        created = None
        try:
            if function != EAGER:  # nobody asks for the cost of eager operations, and there can be hundreds
                proto, reason = module_of(executable, int(job.settings["maximum_module_bytes"]))
                (memory, buffers), devices = memory_of(executable), local_devices_of(executable)
                if proto is None or len(buffers) > len(proto):  # without its module it says nothing
                    buffers = b""
                created = ExecutableCreated(
                    number, function, at, proto, reason, memory, devices, definition, buffers
                )
        finally:
            # The event's time is taken now and not at `at`: the work done here since then is part of the compile.
            job.emit(
                Compilation(
                    function, number, threading.get_ident(), now(), phases, thread.cache, cause, attributes,
                    current_span_context(),
                )
            )  # fmt: skip
        if created is not None:
            job.emit(created)


def _eager(primitive: str, frame: FrameType | None) -> str:
    """The name of a program compiled outside jit: `scan at train.py:12` if it runs the user's code, else `(eager)`."""
    name = control_flow_outside_jit(primitive, frame)
    site = call_site(frame) if name is not None else None
    return EAGER if name is None or site is None else site.names(name)
