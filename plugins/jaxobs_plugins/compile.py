"""Probe `compile`: what JAX traces, lowers and compiles, how long each took, and the executable that came out.

JAX tells its listeners when a phase begins and ends, on the thread that compiles. Nothing is traced or compiled a second
time: the executable is the one that JAX has just made. Serialising its module is the only work done here that could
delay the job, and is the only work that cannot be done later.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any, TypeVar, cast

from jaxobs.model.clock import NANOSECONDS, now
from jaxobs.model.events import (
    Compilation,
    CompilePhaseEnded,
    CompilePhaseStarted,
    ExecutableCreated,
    Measured,
)
from jaxobs.model.labels import EAGER
from jaxobs.model.metrics import Metric
from jaxobs.plugin.protocol import Job
from jaxobs.probe import jax_internals
from jaxobs.probe.trace_context import current_span_context

Hook = TypeVar("Hook", bound=Callable[..., None])

PHASES = {
    "/jax/core/compile/jaxpr_trace_duration": "trace",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lower",
    "/jax/core/compile/backend_compile_duration": "backend",
}
CACHE_READ = "/jax/compilation_cache/cache_retrieval_time_sec"
CACHE_OUTCOMES = {
    "/jax/compilation_cache/compile_requests_use_cache": "request",
    "/jax/compilation_cache/cache_hits": "hit",
    "/jax/compilation_cache/cache_misses": "written",
}
MEMORY_KINDS = {
    "argument": "argument_size_in_bytes",
    "output": "output_size_in_bytes",
    "temporary": "temp_size_in_bytes",
    "alias": "alias_size_in_bytes",
    "code": "generated_code_size_in_bytes",
}
CACHE_REQUESTS = Metric(
    "jaxobs_persistent_cache_requests_total",
    "counter",
    "Outcomes of JAX's persistent compilation cache: requests, hits, and entries written after a miss.",
    ("outcome",),
)


@dataclass(slots=True)
class Phase:
    """A phase under way; `inner` is what was nested in it so far, in nanoseconds."""

    name: str
    function: str
    start: int
    inner: int = 0


class ThreadState(threading.local):
    """What one thread is compiling: the phases under way, and those that ended since its last executable."""

    def __init__(self) -> None:
        self.stack: list[Phase] = []
        self.ended: dict[tuple[str, str], tuple[int, int]] = {}
        self.eager: set[str] = set()
        self.code: dict[str, CodeType | None] = {}
        self.cache = "off"
        self.began_anew = 0


class CompileProbe:
    """Hooks JAX's compile events. See the module."""

    metrics = (CACHE_REQUESTS,)

    def __init__(self) -> None:
        self._job: Job | None = None
        self._thread = ThreadState()
        self._compiled: set[tuple[str, CodeType | None]] = set()
        self._began_anew = 0

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
        if self._job is not None and not jax_internals.is_listening(self._on_duration):
            jax_internals.unregister_listeners(self._on_event, self._on_duration, self._on_start)
            self._began_anew += 1
            self._register()
            self._job.listeners_restored()

    def stop(self) -> None:
        if self._job is not None:
            jax_internals.unregister_listeners(self._on_event, self._on_duration, self._on_start)
            self._job = None

    def _register(self) -> None:
        from jax import monitoring

        monitoring.register_event_listener(self._on_event)
        monitoring.register_event_duration_secs_listener(self._on_duration)
        monitoring.register_scalar_listener(self._on_start)

    def _event(self, event: str, **_: Any) -> None:
        outcome = CACHE_OUTCOMES.get(event)
        if outcome is None or self._job is None:
            return
        self._thread.cache = {"request": "miss", "hit": "hit"}.get(outcome, self._thread.cache)
        self._job.emit(Measured(CACHE_REQUESTS.name, (outcome,), 1.0, now()))

    def _phase_began(self, event: str, value: float, **labels: Any) -> None:  # noqa: ARG002  # JAX passes it
        phase = PHASES.get(event)
        if phase is None or self._job is None:
            return
        at = now()
        stack = self._stack()
        if phase == "trace":
            self._job.trace_began()
        function = self._function(str(labels.get("fun_name", "")), phase)
        stack.append(Phase(phase, function, at))
        if len(stack) == 1:
            self._job.emit(CompilePhaseStarted(function, phase, threading.get_ident(), at))

    def _duration(self, event: str, duration_secs: float, **_: Any) -> None:
        if self._job is None:
            return
        if event == CACHE_READ:
            self._cache_was_read(int(duration_secs * NANOSECONDS))
        phase = PHASES.get(event)
        stack = self._stack()
        if phase is None or not stack or stack[-1].name != phase:
            return  # it began before we listened
        ended = stack.pop()
        end = now()
        if phase == "trace":
            self._job.trace_ended()
        total = end - ended.start
        if stack:
            stack[-1].inner += total
        self._thread.ended[phase, ended.function] = (ended.start, end)
        self._phase_ended(ended, end, outermost=not stack)
        if phase == "backend":
            # Frames: this, the guard's two, JAX's record_…, the context manager's __exit__, the function wanted.
            executable = jax_internals.new_executable(sys._getframe(1))  # noqa: SLF001  # the public way to a frame
            if executable is not None:
                self._executable_made(executable, ended.function, end)
            self._thread.cache = "off"

    def _or_begin_anew(self, hook: Hook) -> Hook:
        """A hook that failed may have left a phase open, and the guard may keep its end from us: forget all of them."""

        @functools.wraps(hook)
        def reliable(*args: Any, **labels: Any) -> None:
            try:
                hook(*args, **labels)
            except BaseException:
                self._began_anew += 1
                raise

        return cast("Hook", reliable)

    def _stack(self) -> list[Phase]:
        """The phases under way on this thread; none if listening was interrupted since the last of them began."""
        thread = self._thread
        if thread.began_anew != self._began_anew:
            thread.began_anew = self._began_anew
            assert self._job is not None
            for phase in thread.stack:
                if phase.name == "trace":
                    self._job.trace_ended()
            thread.stack.clear()
        return thread.stack

    def _phase_ended(self, phase: Phase, end: int, *, outermost: bool) -> None:
        assert self._job is not None
        exclusive = max(0, end - phase.start - phase.inner)
        self._job.emit(
            CompilePhaseEnded(
                phase.function, phase.name, threading.get_ident(), phase.start, end, exclusive, outermost
            )
        )

    def _cache_was_read(self, duration: int) -> None:
        assert self._job is not None
        stack = self._thread.stack
        if not stack:
            return
        end = now()
        stack[-1].inner += duration
        read = Phase("cache_read", stack[-1].function, end - duration)
        self._thread.ended["cache_read", read.function] = (read.start, end)
        self._phase_ended(read, end, outermost=False)

    def _function(self, name: str, phase: str) -> str:
        """The jitted function's name: `jit(step)` and `step` are one, and what JAX compiles by itself is `(eager)`.

        To be called by the listener itself: JAX's frames are looked for above it.
        """
        inner = name[name.index("(") + 1 : -1] if name.endswith(")") and "(" in name else name
        eager = self._thread.eager
        if phase == "trace":
            traced = jax_internals.traced_function(sys._getframe(2))  # noqa: SLF001  # the public way to a frame
            module = str(getattr(traced, "__module__", "") or "")
            (eager.add if module == "jax" or module.startswith("jax.") else eager.discard)(inner)
            if not self._thread.stack:  # JAX's own `add` may be traced inside the user's
                code = getattr(traced, "__code__", None)
                self._thread.code[inner] = code if isinstance(code, CodeType) else None
        elif phase == "lower":
            own = jax_internals.lowered_by_jax(sys._getframe(2))  # noqa: SLF001  # the public way to a frame
            if own is not None:
                (eager.add if own else eager.discard)(inner)
        return EAGER if inner in eager else inner or EAGER

    def _executable_made(self, executable: Any, function: str, at: int) -> None:
        job, thread = self._job, self._thread
        assert job is not None
        number = job.executable_number()
        phases = tuple(
            (phase, *thread.ended.pop((phase, function)))
            for phase in ("trace", "lower", "backend", "cache_read")
            if (phase, function) in thread.ended
        )
        thread.ended.clear()
        # By its code as well as its name: two functions may be called `loss`. An argument's shape, say, changes neither.
        key = (function, thread.code.get(function))
        again = function != EAGER and key in self._compiled
        self._compiled.add(key)
        job.emit(
            Compilation(
                function, number, threading.get_ident(), at, phases, thread.cache, "other" if again else None, (),
                current_span_context(),
            )
        )  # fmt: skip
        if function == EAGER:
            return  # its cost is asked for by nobody, and there can be hundreds
        proto, reason = self._proto(executable)
        job.emit(
            ExecutableCreated(
                number, function, at, proto, reason, _memory(executable), _local_devices(executable)
            )
        )
        job.executable_created(function, number)

    def _proto(self, executable: Any) -> tuple[bytes | None, str]:
        assert self._job is not None
        limit = int(self._job.settings["maximum_module_bytes"])
        try:
            proto: bytes = executable.hlo_modules()[0].as_serialized_hlo_module_proto()
        except Exception as error:  # noqa: BLE001  # a backend that does not give its modules
            return None, f"the backend gave no module: {type(error).__name__}: {error}"[:200]
        if len(proto) > limit:
            return None, f"the module has {len(proto)} bytes, more than JAXOBS_MAXIMUM_MODULE_BYTES={limit}"
        return proto, ""


def _memory(executable: Any) -> tuple[tuple[str, int], ...]:
    try:
        stats = executable.get_compiled_memory_stats()
        return tuple(
            (kind, int(getattr(stats, name))) for kind, name in MEMORY_KINDS.items() if hasattr(stats, name)
        )
    except Exception:  # noqa: BLE001  # not every backend has the analysis: then its memory is absent
        return ()


def _local_devices(executable: Any) -> int:
    try:
        return len(executable.local_devices())
    except Exception:  # noqa: BLE001  # as above; an executable runs on one device at least
        return 1
