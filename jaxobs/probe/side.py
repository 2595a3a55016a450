"""The probe side as a whole: plugins, marks, watched functions, the threads, and how they end."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from jaxobs.flow.ring import Ring
from jaxobs.model.events import BackendFound, Event
from jaxobs.plugin.discovery import PROBES, Found, discover
from jaxobs.plugin.guard import Guard
from jaxobs.probe.agent_process import Connection
from jaxobs.probe.annotations import annotate_steps, hook_annotations
from jaxobs.probe.backend import find_backend
from jaxobs.probe.completions import Completions
from jaxobs.probe.executables import Executables
from jaxobs.probe.loops import Loops, Step
from jaxobs.probe.recorded import RecordedValues
from jaxobs.probe.sender import Sender
from jaxobs.probe.watched import Watched

Hook = TypeVar("Hook", bound=Callable[..., None])


class ProbeJob:
    """What one probe gets of the job (`jaxobs.plugin.protocol.Job`)."""

    def __init__(self, side: ProbeSide, guard: Guard) -> None:
        self._side = side
        self._guard = guard
        self.settings = side.settings
        self.emit = side.ring.emit
        self.executable_number = side.executable_number
        self.executable_created = side.executables.created

    def guard(self, hook: Hook) -> Hook:
        return self._guard.wrap(hook)  # type: ignore[return-value]  # the same parameters, always None

    def trace_began(self) -> None:
        self._side.trace_began()

    def trace_ended(self) -> None:
        self._side.trace_ended()

    def listeners_restored(self) -> None:
        self._side.sender.listeners_restored += 1


class ProbeSide:
    """Everything of ours in the training process. Starts no JAX backend; `start` needs JAX to be imported."""

    def __init__(
        self,
        settings: dict[str, Any],
        hello: Callable[[], dict[str, Any]],
        connect: Callable[[], Connection],
        heard: Callable[[bytes, Any], None],
        log: Callable[[str], None],
    ) -> None:
        self.settings = settings
        self.ring = Ring(settings["ring_capacity"])
        self.executables = Executables()
        self.loops = Loops(self.ring.emit)
        self.completions = Completions(self.ring.emit, settings["sample_interval"])
        self.recorded = RecordedValues(self.loops.current, log)
        self.sender = Sender(
            self.ring, connect, hello, self._gather, heard, log, settings["interval"], self._polling_cpu
        )
        self.plugins: list[tuple[Found, Guard]] = []
        self.when_first_compiled: Callable[[], None] | None = None
        self._unhook: Callable[[], None] | None = None
        self._log = log
        self._watched: list[Watched[Any, Any]] = []
        self._backend: BackendFound | None = None
        self._suspended = threading.local()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def start_probes(self) -> None:
        """Load the probes and let them hook in. JAX is imported by now."""
        annotations = Guard("annotations", "probe", self._log)
        annotations.call(annotate_steps, self.loops)
        self._unhook = annotations.call(hook_annotations, self.loops, annotations.wrap)
        for found in discover(PROBES):
            guard = Guard(found.name, "probe", self._log)
            self.plugins.append((found, guard))
            if found.error:
                guard.fail(found.error)
            else:
                guard.call(found.plugin.start, ProbeJob(self, guard))

    def start_threads(self) -> None:
        """The sender and the polling thread. Daemons that are joined at exit: never left inside a JAX call."""
        with self._lock:
            if self._threads:
                return
            self.sender.open()
            for name, life in (
                ("jaxobs-sender", self.sender.run),
                ("jaxobs-completions", self.completions.run),
            ):
                thread = threading.Thread(target=life, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()

    def executable_number(self) -> int:
        """A fresh number. The first executable is the proof that the job has made a backend."""
        begin, self.when_first_compiled = self.when_first_compiled, None
        if begin is not None:
            begin()
        return self.executables.number()

    def watch(self, function: Any) -> Any:
        if isinstance(function, Watched):
            return function
        watched: Watched[Any, Any] = Watched(
            function,
            -1 - len(self._watched),
            self.ring.emit,
            self.loops.current,
            self.executables,
            self.completions,
        )
        self._watched.append(watched)
        return watched

    def stop(self, timeout: float) -> None:
        """Unhook, flush, and end the threads, within `timeout` seconds."""
        deadline = time.monotonic() + timeout
        for found, guard in self.plugins:
            if not found.error:
                guard.call(found.plugin.stop)
        if self._unhook is not None:
            self._unhook()
        self.completions.stop()
        self.sender.finish(timeout)
        for thread in self._threads:
            # The sender keeps its own deadline; the little more is for its last line.
            thread.join(max(0.0, deadline - time.monotonic()) + 0.2)

    def forget_in_child(self) -> None:
        """After a fork nothing of ours may run in the child, and no copy of the pipe may keep the agent waiting."""
        self.completions.armed = False
        self.sender.abandon()
        self._threads = []

    def trace_began(self) -> None:
        """While JAX traces, watched functions that are called run nothing: their marks go to a step nobody sees."""
        depth = getattr(self._suspended, "depth", 0)
        if depth == 0:
            self._suspended.step = self.loops.current.step
            self.loops.current.step = hidden = Step("")
            hidden.hidden = True
        self._suspended.depth = depth + 1

    def trace_ended(self) -> None:
        self._suspended.depth = max(0, getattr(self._suspended, "depth", 0) - 1)
        if self._suspended.depth == 0:
            self.loops.current.step = getattr(self._suspended, "step", None)
            self._suspended.step = None

    def _gather(self) -> list[Event]:
        """On the sender's thread, once a wake-up: what is read rather than emitted."""
        events: list[Event] = []
        if self._backend is None:
            with contextlib.suppress(Exception):  # a backend that is just being made; asked again in a second
                self._backend = find_backend()
            if self._backend is not None:
                events.append(self._backend)
        for watched in list(self._watched):
            events += watched.calls_outside()
        events += self.recorded.ready()
        events += self._plugin_turns()
        return events

    def _plugin_turns(self) -> Iterable[Event]:
        for found, guard in self.plugins:
            sample = getattr(found.plugin, "sample", None)
            if callable(sample):
                guard.call(sample)
            yield guard.report()

    def _polling_cpu(self) -> float:
        return self.completions.cpu_seconds
