"""All of jaxobs that runs in the training process: probes, marks, watched functions and threads, and their end."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

from jaxobs.flow.ring import Ring
from jaxobs.identity import is_told_its_job
from jaxobs.jax_compat.runtime import backend_exists, coordinator_address, leave_out
from jaxobs.model.clock import monotonic, now
from jaxobs.model.events import BackendFound, Compilation, Event, ExecutableCreated
from jaxobs.model.profile import ProfileResult
from jaxobs.plugin.base import DEVICE_VARIABLES
from jaxobs.plugin.guard import Guard, Suppressed, raised_by_signal_handler
from jaxobs.plugin.protocol import Hook, Progress
from jaxobs.plugin.threads import MAX_CALL_SECONDS, Thread
from jaxobs.plugin.wrapping import INTERNAL
from jaxobs.probe.host_lines import HostLines, stacks_taken
from jaxobs.probe.import_hook import weakly, when_imported
from jaxobs.probe.sources import COMPILES, Sources
from jaxobs.probe.stack import Describer
from jaxobs.probe.steps.iteration import Steps
from jaxobs.probe.steps.loops import Loops
from jaxobs.probe.steps.marks import LibraryPhase, hook_annotations, on_main_thread
from jaxobs.probe.steps.values import RecordedValues
from jaxobs.probe.transport.backlog import Payloads
from jaxobs.probe.transport.sender import Agents, Sender
from jaxobs.probe.watch.automatic import watch_all_jitted, watch_compiled_ahead, watch_loops_outside_jit
from jaxobs.probe.watch.calls import Calls, Executables
from jaxobs.probe.watch.completions import Completions
from jaxobs.probe.watch.locate_nan import CheckedValues
from jaxobs.probe.watch.registry import Watching
from jaxobs.probe.watch.watched import Watched

START_SECONDS = 1.0
"""Most seconds for which starting the agent may hold up `instrument()`; it takes 15 ms on an idle machine."""

PROFILE_SECONDS = 180.0
"""Seconds to wait for a profiler window: it records for a minute at most, and waits for at most one before it."""


def find_backend() -> BackendFound | None:
    """The backend and its local devices; None while the job has created no backend.

    Asking JAX for devices would create one, and break what the job sets up afterwards (`jax.distributed.initialize()`,
    `jax_num_cpu_devices`).
    """
    if not backend_exists():
        return None
    import jax
    import jaxlib.version

    local = jax.local_devices()
    # The UUID is empty where JAX has none, because a number within the process identifies no device.
    devices = tuple(
        (ordinal, str(device.device_kind), str(getattr(device, "uuid", None) or ""))
        for ordinal, device in enumerate(local)
    )
    numbers = [getattr(device, "local_hardware_id", None) for device in local]
    return BackendFound(
        jax.default_backend(), devices, jax.process_index(), jax.process_count(), jax.__version__,
        jaxlib.version.__version__, now(),
        tuple(number for number in numbers if type(number) is int) if None not in numbers else (),
        tuple((name, os.environ.get(name)) for name in DEVICE_VARIABLES),
        "" if is_told_its_job(os.environ) else coordinator_address(),
    )  # fmt: skip


class ProbeJob:
    """The job as one probe sees it (`jaxobs.plugin.protocol.Job`)."""

    def __init__(self, side: ProbeSide, guard: Guard) -> None:
        self._side = side
        self._guard = guard
        self.switch_off = guard.switch_off
        self.settings = side.settings
        self.executable_number = side.executables.number
        self.trace_began = side.loops.current.hide_step
        self.trace_ended = side.loops.current.restore_step

    def emit(self, event: Event) -> None:
        side = self._side
        if side.recorded.locating == threading.get_ident():
            return  # what jaxobs itself compiles is none of the job's
        side.payloads.emit(event)
        if type(event) is ExecutableCreated:
            side.executables.created(event.function, event.executable)
        elif type(event) is Compilation:
            side.compilation_ended(event)

    def guard(self, hook: Hook) -> Hook:
        return self._guard.wrap(hook)  # type: ignore[return-value]  # the same parameters, always None

    def listeners_restored(self) -> None:
        self._side.sender.listeners_restored += 1
        self._side.listeners_restored()

    def progress(self) -> Progress:
        side = self._side
        return Progress(side.steps_ended(), side.compiled, side.payloads.module_bytes, side.sender.agents)

    def annotate_steps(self, session: object | None) -> None:
        self._side.loops.profiler_session = session

    def when_imported(self, module: str, action: Callable[[ModuleType], None]) -> None:
        when_imported(module, self._guard.wrap(weakly(action)))

    def phase(self, name: str, *, tentative: bool = False) -> AbstractContextManager[None]:
        return LibraryPhase(self._side.loops, name, tentative=tentative)

    def record(self, values: Mapping[str, Any]) -> None:
        if on_main_thread():
            self._side.recorded.record(values)


class ProbeSide:
    """Everything of ours in the training process. It creates no JAX backend; `start_probes` needs an imported JAX."""

    def __init__(
        self, settings: dict[str, Any], agents: Agents, log: Callable[[str], None],
        before: ProbeSide | None = None,
    ) -> None:  # fmt: skip
        """`before`: the probe side of an observer that has ended; its executables may still run."""
        self.settings = settings
        self.ring = Ring(settings["ring_capacity"])
        self.executables: Executables = before.executables if before is not None else Executables()
        self.loops = Loops(self.ring)
        self.completions = Completions(self.ring.emit, settings["sample_interval"])
        self.loops.turn_ended, self.loops.left = self.completions.turn_ended, self.completions.loop_left
        self.recorded: RecordedValues = (
            CheckedValues(self.loops.current, log, self.ring.emit)
            if settings.get("locate_nan")
            else RecordedValues(self.loops.current, log)
        )
        self.sender: Sender = Sender(self.ring, agents, self._gather, log, settings["interval"])
        if before is not None:
            self.sender.retained.keep(before.sender.retained.executables())
        self.payloads = Payloads(self.ring, self.sender.unsent_bytes)
        self._describer = Describer(Steps.__iter__.__code__, Watched.__call__.__code__)
        self.host_lines = self._sampler(settings, log)
        self._stacks = Guard("stacks", "probe", log)
        self.sources = Sources(lambda guard: ProbeJob(self, guard), log, self._sample)
        self.when_first_compiled: Callable[[], None] | None = None
        self.compiled: int | None = None
        self.recompiled: Callable[[Compilation], None] = lambda event: None
        """Called with each compilation that has a cause, on the thread that compiled."""
        self.listeners_restored: Callable[[], None] = lambda: None
        """Called when JAX's listeners, which somebody had cleared, are back."""
        self.is_at_exit = False
        """Whether the main thread does our work at the end of the job, of which it takes no samples."""
        self.watches_all = False
        """Whether all functions that the script and its libraries jit are watched."""
        self._put_back: list[Callable[[], None] | None] = []
        self._log = log
        self.watching = Watching(self._calls_of)
        self._backend: BackendFound | None = None
        self._threads: dict[str, Thread] = {}
        self._deadline = 0.0

    def start_probes(self) -> None:
        """Load the probes and install the hooks. JAX must be imported."""
        leave_out(INTERNAL)
        self.watching.begin()
        if self.watches_all:
            jitting = Guard("jitted functions", "probe", self._log)
            jax, watch, current = sys.modules["jax"], self.watching.watch, self.loops.current
            self._put_back += [
                jitting.call(watch_all_jitted, jax, watch),
                jitting.call(watch_compiled_ahead, jax, watch, self.executables),
                jitting.call(watch_loops_outside_jit, jax, watch, current),
            ]
        annotations = Guard("annotations", "probe", self._log)
        self._put_back.append(annotations.call(hook_annotations, self.loops, annotations.wrap))
        self.sources.start()

    def start_threads(self) -> None:
        """Start our threads. `begin_end` ends them, also those that were started before an error.

        Raises OSError, RuntimeError, or what a guard of the job's raises that forbids sockets. No agent is started then:
        the sender, which starts it, comes last.
        """
        self.sender.open()
        try:
            self._threads["completions"] = Thread("completions", self._poll)
            self.sources.begin_sampling()
            if self.host_lines is not None:
                self._threads["host-lines"] = Thread("host-lines", self.host_lines.run)
            self._threads["sender"] = Thread("sender", self.sender.run, awaited=False)
        except RuntimeError:
            self.sender.abandon()
            raise

    def await_start(self) -> None:
        """Wait until the process that starts the agent has ended, so that the job does not find it among its children."""
        if "sender" in self._threads:
            self.sender.begun.wait(START_SECONDS)

    def steps_ended(self) -> int:
        """How many marked steps have ended, and calls of watched functions before the first of them."""
        return self.loops.steps_ended() + self.loops.unmarked.count

    def compilation_ended(self, event: Compilation) -> None:
        """Take note of a compile. The first one proves that there is a backend, and starts what waits for one."""
        self._look_for_backend()  # so that a job that is killed within its first second leaves its summary, too
        self.compiled = now()
        begin, self.when_first_compiled = self.when_first_compiled, None
        if begin is not None:
            begin()
        if event.recompilation is not None:
            self.recompiled(event)

    def why_uncounted(self) -> str:
        """Why it cannot be told what was compiled again; empty where it can."""
        for source in self.sources:
            if source.guard.source == COMPILES:
                source.sample()  # are its listeners still there?
                failed = source.guard.reason or f"{source.guard.failures} times"
                fine = source.ready and not source.guard.failures
                return "" if fine else f"the probe that sees compiles failed: {failed}"
        return "no probe sees compiles: is JAX imported?"

    def _calls_of(self, function: Any, number: int) -> Calls:
        calls = Calls(function, number, self.loops, self.executables, self.completions)
        if isinstance(self.recorded, CheckedValues):
            calls.function = self.recorded.keeping(function)
        return calls

    def _sampler(self, settings: dict[str, Any], log: Callable[[str], None]) -> HostLines | None:
        """The main thread's sampler, None if switched off. It knows the loop only if this runs on the main thread."""
        if not settings.get("host_lines"):
            return None
        # This thread's part of a `threading.local`.
        marks = vars(self.loops.current) if on_main_thread() else {}
        unmarked = self.loops.unmarked

        def loop() -> str | None:
            if self.is_at_exit:
                return None
            step = marks.get("step")
            if step is not None and not step.hidden:
                return str(step.state.name)
            if unmarked.on_another_thread:
                return None
            between = self.loops.between_steps(marks.get("phase")) if step is None else ""
            return unmarked.newest or between

        return HostLines(self._describer, loop, log)

    def profile(self, seconds: float, keep: bool | str) -> ProfileResult:
        """Ask the probe that takes profiles for a profiler window, and wait for its end."""
        begun = self.sources.begin_profile(seconds, keep)
        if isinstance(begun, str):
            return ProfileResult("failed", "", begun)
        try:
            return begun.result(PROFILE_SECONDS)
        except TimeoutError as error:
            if raised_by_signal_handler(error):
                raise
            return ProfileResult("failed", "", f"no answer within {PROFILE_SECONDS:.0f} s")

    def take_stacks(self, thread: int) -> None:
        """Send where the job's threads are, that one first."""
        if (taken := self._stacks.call(stacks_taken, self._describer, thread)) is not None:
            self.ring.emit(taken)

    def stop(self, timeout: float) -> None:
        """End within `timeout` seconds, but for what must not be left."""
        self.begin_end(monotonic() + timeout)
        self.await_end()

    def begin_end(self, deadline: float) -> None:
        """Begin to unhook, to flush and to end the threads by `deadline`, of `monotonic()`; `await_end` waits for it."""
        self._deadline = deadline
        self.completions.stop()  # whose thread does the rest, as no signal handler interrupts it there
        if "completions" not in self._threads:
            self._end()

    def await_end(self) -> None:
        """Wait until all arrays are let go of and every thread that could hold one has ended, however long that takes.

        Then wait for the sender, until the deadline. Returns at once where there was no `begin_end`.
        """
        if self.completions.stopped.is_set() and "completions" in self._threads:
            self._threads["completions"].join()
            if not self.loops.over:  # an exception that the job has raised in that thread has ended it
                self._end()
        if "sender" in self._threads:
            # The sender keeps the deadline by itself; the extra time is for its last log line.
            self._threads["sender"].join(self._deadline - monotonic() + 0.2)

    def _poll(self) -> None:
        try:
            self.completions.run()
        finally:
            self.completions.stopped.wait()  # it is the end's turn only when that has begun
            self._end()

    def _end(self) -> None:
        self.loops.over = True
        try:
            self.watching.end()
            for put_back in filter(None, self._put_back):
                put_back()
            sampled = self.sources.stop(self._deadline - monotonic())
            self.completions.end()
            if sampled:  # of each name the value that waits, and the newest after it
                for event in (*self.recorded.ready(), *self.recorded.ready()):
                    self.ring.emit(event)
        finally:
            for holder in (self.completions, self.recorded):
                holder.let_go()
            if self.host_lines is not None:
                self.host_lines.stop()
            if "host-lines" in self._threads:
                self._threads["host-lines"].join(MAX_CALL_SECONDS)
            self.sender.finish(max(0.0, self._deadline - monotonic()))

    def forget_in_child(self) -> None:
        """Switch everything off in a forked child, whose copies of our sockets are closed."""
        self.completions.let_go()
        self.recorded.let_go()
        self.sources.forget_in_child()
        self._threads = {}
        self.ring.close()
        self.watching.end()
        self.loops.current.hide_step()  # a step under way would otherwise collect runs for as long as the child lives

    def _gather(self) -> list[Event]:
        """Gather what is read once a wake-up instead of emitted when it happens. On the sender's thread."""
        calls, turns = self.loops.unmarked.others_called(), self.loops.turns_asked()
        samples = () if self.host_lines is None else self.host_lines.take()
        return [*calls, *turns, *samples, *self.sources.turn()]

    def _look_for_backend(self) -> None:
        if self._backend is None:
            with Suppressed(Exception):  # a backend is just being created; asked again in a second
                self._backend = find_backend()
            if self._backend is not None:
                self.ring.emit(self._backend)

    def _sample(self) -> None:
        """Ask JAX what a device may be slow to answer. Once a turn, on the sampling thread."""
        self._look_for_backend()
        for event in self.recorded.ready():
            self.ring.emit(event)
