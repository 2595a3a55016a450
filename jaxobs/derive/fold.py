"""The fold: events in, snapshots out. Deterministic, without effects; each event type goes to the views that need it.

A few lines longer than other files: which event goes where, and what a snapshot is made of, belong on one page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jaxobs.derive.advice import advise, show
from jaxobs.derive.compilation.compilations import Compiles
from jaxobs.derive.compilation.unattributed import PATIENCE, UnclaimedCompiles
from jaxobs.derive.devices.devices import Devices
from jaxobs.derive.devices.throttling import clocks_document
from jaxobs.derive.executables.registry import Executables
from jaxobs.derive.loops.goodput import NOT_MARKED, LoopTime, RunTime
from jaxobs.derive.loops.host_lines import MOST_CARRIED, HostLine, HostLines, check_row
from jaxobs.derive.loops.inferred import Followed, InferredLoops
from jaxobs.derive.loops.liveness import SignsOfLife
from jaxobs.derive.loops.loop import Loop
from jaxobs.derive.loops.steps.plain_steps import FEWEST, NotPlainError, PlainSteps, grouped
from jaxobs.derive.loops.under_way import RunsUnderWay
from jaxobs.derive.memory.usage import Memory
from jaxobs.derive.metrics import catalogue as core
from jaxobs.derive.metrics.series import Series
from jaxobs.derive.process.document import (
    IN_THE_JOB,
    agent_document,
    has_nothing_to_tell,
    process_document,
    source_document,
)
from jaxobs.derive.process.identity import run_attributes, run_labels
from jaxobs.derive.process.recent import Recent
from jaxobs.derive.profiler_windows.windows import Profiles, WindowToRead
from jaxobs.derive.refusal import described, is_amount, require, require_types
from jaxobs.derive.spans import Spans
from jaxobs.derive.validation import Validation
from jaxobs.hardware.peaks import Peaks
from jaxobs.model import events
from jaxobs.model.clock import NANOSECONDS, ClockAnchor, seconds
from jaxobs.model.cost import ModuleCost
from jaxobs.model.device_readings import DeviceReading
from jaxobs.model.metrics import Catalogue, Exemplar
from jaxobs.model.snapshot import Snapshot
from jaxobs.model.spans import Span
from jaxobs.roofline.traced import Profiled

LOOPS = 20
"""At most so many loops by name; the steps of more are refused and counted: a loop's name is no step's number."""

SERIES_AN_OPERATION = 40
"""So many operations keep series of their own: one for 40 of the limit; each takes four, a tenth of the limit in all."""

SERIES_A_ROW = 30
"""Series that a function or an executable takes at most, to share out the limit on series."""


class Fold:
    """State of one training process. `resource` and `facts` are shown as they are under `process`.

    `job` is what it shares with the other ranks of this start of the job, None where nothing tells.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        clock: ClockAnchor,
        began: int,
        resource: Mapping[str, str],
        facts: Mapping[str, Any],
        series_limit: int,
        device_readings: tuple[DeviceReading, ...] = (),
        job: str | None = None,
    ) -> None:
        self.series = Series(catalogue, series_limit)
        self.clock = clock
        self.accepted = self.refused = 0
        self._emitted_here = 0
        self.address: str | None = None
        self._began = began
        self._resource = resource
        self._facts = facts
        rows = max(1, series_limit // SERIES_A_ROW // 2)
        self.compiles = Compiles(self.series, rows)
        self.executables = Executables(self.series, rows)
        self.profiles = Profiles(self.series, max(1, series_limit // SERIES_AN_OPERATION))
        self.devices = Devices(self.series, device_readings)
        self.memory = Memory(self.series)
        self.recent = Recent()
        self._signs = SignsOfLife(began)
        self.run_time = RunTime(self.series, began, self._signs)
        self._spans = Spans(resource.get("service.instance.id", ""), job)
        self._finished: list[Span] = []
        self._unclaimed = UnclaimedCompiles()
        self.loops: dict[str, Loop] = {}
        self._inferred = InferredLoops(self.executables.function_of, self.compiles.within)
        self._outside_loops = HostLines("", self.series)
        self._validation = Validation(self.series)
        self._sources: dict[str, events.SourceReported] = {}
        self._dropped_by: dict[str, tuple[int, str]] = {}
        self._probe = events.ProbeReported(0, 0, 0, 0, 0.0, began)
        self.last_heard: int | None = None
        """When the job last said something, in monotonic nanoseconds; None before it did."""
        self._cpu_of_agent: float | None = None
        self._resident: int | None = None
        self.agent_pid: int | None = None
        """The agent's own process; None where it is a thread of the job."""
        self.under_way = RunsUnderWay()
        self._unplaced: dict[str, events.Recorded] = {}
        self._handlers: dict[type, Callable[[Any], None]] = {
            events.Measured: lambda event: self.series.measured(event.metric, event.labels, event.value),
            events.SpanEnded: lambda event: self._finished.append(self._spans.of_plugin(event)),
            events.StepEnded: self._step_ended,
            events.StepCompleted: _each(self._step_completed, self._signs.happened, self.under_way.ended),
            events.LoopDeclared: lambda event: self._loop(event.loop).declared(event),
            events.LoopEnded: self._loop_ended,
            events.PhaseStarted: self.run_time.phase_started,
            events.PhaseEnded: self._phase_ended,
            events.Recorded: _each(self._recorded, self._signs.happened),
            events.FunctionWatched: self.executables.watched,
            events.FunctionCalled: _each(
                lambda event: self.executables.ran(event.run, event.calls), self._signs.happened
            ),
            events.ExecutableRan: _each(self._sampled, self._signs.happened, self.under_way.ended),
            events.RunUnderWay: self.under_way.seen,
            events.CompilePhaseStarted: self.compiles.phase_started,
            events.CompilePhaseEnded: self._compile_phase_ended,
            events.Compilation: self._compiled,
            events.ExecutableCreated: self.executables.created,
            events.BackendFound: self._backend_found,
            events.MemorySampled: _each(self.memory.sampled, self._signs.memory_sampled),
            events.LiveArraysCounted: _each(self.memory.counted, self._signs.arrays_counted),
            events.MainThreadSampled: self._main_thread_sampled,
            events.ProfileWindow: self._profile_window,
            events.SourceReported: self._source,
            events.ProbeReported: self._probe_reported,
        }

    def apply(self, event: events.Event) -> None:
        """Fold one event. One that is malformed or says what cannot be is refused and counted; the fold goes on.

        One of whose values is refused counts as refused too, and no longer as accepted: each event is in one count.
        """
        values_refused = self.series.refused
        try:
            require_types(event)
            self._handlers[type(event)](event)
            if self.series.refused == values_refused:
                self.accepted += 1
            else:
                self.refused += 1
        except Exception as error:  # noqa: BLE001  # plugins may put anything into an event's fields
            self.refused += 1
            self.series.refusals.note(described(event, error))

    def apply_own(self, event: events.Event) -> None:
        """Fold one event that did not come from the job: a collector's, an exporter's, or how one of them fares."""
        self._emitted_here += 1
        self.apply(event)

    def apply_steps(self, rows: events.StepRows) -> events.StepRows:
        """Fold many plain steps at once, or where that cannot be one by one; unmarked calls as the steps they make.

        Gives the rows of the steps.
        """
        folded: events.StepRows = []
        for steps in grouped(rows):
            if steps.loop == events.UNMARKED:
                self.accepted += len(steps)
                self.executables.hold(steps.runs)
                folded += self._follow(self._inferred.follow(steps.rows))
            else:
                folded += self._follow(self._inferred.end())  # marked steps win
                self._fold_steps(steps)
                folded += steps.rows
        return folded

    def _follow(self, followed: Followed) -> events.StepRows:
        """Fold what unmarked calls turned out to be, each of which was counted as an event when it came."""
        self.executables.release(followed.outside)
        for run, calls in followed.outside.items():
            self.executables.ran(run, calls)
        counts = self.accepted, self.refused
        for steps in grouped(followed.rows) if followed.rows else ():
            self.executables.release(steps.runs)
            self._loop(steps.loop).inferred = True
            self._fold_steps(steps)
        self.accepted, self.refused = counts
        return followed.rows

    def _fold_steps(self, steps: PlainSteps) -> None:
        if not self._folded_at_once(steps):
            for event in steps.events():
                self.apply(event)

    def _folded_at_once(self, steps: PlainSteps) -> bool:
        """Whether that could be done; else nothing was changed."""
        if len(steps) < FEWEST or not self._signs.is_near(steps.ends[-1]):
            return False
        try:
            loop = self._loop(steps.loop)
            loop.steps_ended(steps, self.compiles, self.executables, self.profiles)
        except (NotPlainError, ValueError, TypeError):  # whatever is wrong with one, the others are folded
            return False
        self.run_time.steps_ended(steps, its_end_is_told=not loop.inferred)
        self.recent.steps_ended(steps)
        for step, span in self._spans.of_steps(steps):
            self._finish_step(loop, span, step)
        self.accepted += len(steps)
        return True

    def bind_peaks(self, kind: str, peaks: Peaks) -> None:
        """Peaks of a device kind; executables are bound by those of the first device."""
        self.devices.bind_peaks(kind, peaks)
        backend = self.devices.backend
        if backend and backend.devices and backend.devices[0][1] == kind:
            self.executables.bind_peaks(peaks)

    def analysed(self, number: int, module: ModuleCost | None, reason: str = "") -> None:
        self.executables.analysed(number, module, reason)
        if module is not None:
            self.devices.draw_roofs(module.cost.matrix_flops_by_type)

    def windows_to_read(self, now: int, *, final: bool = False) -> list[WindowToRead]:
        """Profiler windows whose steps are known by now; `final`: nothing more will come."""
        return self.profiles.to_read(now, self.executables, final=final)

    def profiled(self, window: WindowToRead, joined: Profiled | None, reason: str = "") -> None:
        """The agent has read a window, or could not."""
        self.profiles.read(window, joined, self.executables, reason)

    def agent_measured(self, cpu_seconds: float | None, resident_bytes: int | None) -> None:
        """None where the agent is a thread of the job, whose own they are not."""
        self._cpu_of_agent, self._resident = cpu_seconds, resident_bytes

    def exporter_dropped(self, exporter: str, events: int, unknown: str = "") -> None:
        """So many events and spans it is known to have lost so far; `unknown` says why there may be more."""
        self._dropped_by[exporter] = (events, unknown)
        self.series.total(core.EXPORTER_DROPPED, (exporter,), float(events))

    def finished_spans(self) -> list[Span]:
        """Spans since this was last asked."""
        finished, self._finished = self._finished, []
        return finished

    def end(self, now: int, *, said: bool) -> None:
        """The job is over; `said` is false where it died without a word. What was held back is shown."""
        self._follow(self._inferred.end())
        for event in list(self._unplaced.values()):
            self._recorded(event)
        self.under_way = RunsUnderWay()
        for compilation in self._unclaimed.ended_before(now + 1):
            self._finish_compilation(compilation, None)
        steps = sum(loop.steps for loop in self.loops.values())
        attributes = run_attributes(self._resource, steps, self.run_time.goodput(), said=said)
        self._finished.append(self._spans.of_run(self._began, now, attributes))

    def snapshot(self, now: int) -> Snapshot:
        self._follow(self._inferred.settle(now))
        for compilation in self._unclaimed.ended_before(now - PATIENCE):
            self._finish_compilation(compilation, None)
        for loop in self.loops.values():
            loop.update(now, self.executables, self.profiles)
        self.executables.update()
        self.compiles.update(now)
        self.devices.update(now)
        told = {name: LoopTime(loop.wall, loop.components, loop.stalls) for name, loop in self.loops.items()}
        running = self.under_way.at(now)
        self.run_time.update(now, told, self.compiles.in_flight_since(), running.start if running else None)
        self._outside_loops.update()
        self._show_bottlenecks()
        self._show_self()
        document = self._document(now)
        document = self._validation.checked(document)
        document["advice"] = advise(document)
        show(document["advice"], self.series)
        return Snapshot(now, document, self.series.families())

    def _loop(self, name: str) -> Loop:
        loop = self.loops.get(name)
        if loop is None:
            if len(self.loops) >= LOOPS:
                raise ValueError(f"more than {LOOPS} loops")
            loop = self.loops[name] = Loop(name, self.series, self.clock, self._signs)
        return loop

    def _step_ended(self, event: events.StepEnded) -> None:
        loop = self._loop(event.loop)
        loop.step_ended(event, self.compiles, self.executables, self.profiles)
        self.run_time.step_ended(event, its_end_is_told=not loop.inferred)
        self.recent.step_ended(event)
        compilations = self._unclaimed.within(event.thread, event.start, event.end)
        for span in self._spans.of_step(event, compiled=bool(compilations)):
            self._finish_step(loop, span, event.step)
            for compilation in compilations:
                self._finish_compilation(compilation, span)

    def _step_completed(self, event: events.StepCompleted) -> None:
        if event.loop == events.UNMARKED:
            completed = self._inferred.completed(event)
            if completed is None:
                return
            event = completed
        loop = self._loop(event.loop)
        loop.completed(event, self.executables)
        for span in self._spans.of_completion(event):
            self._finish_step(loop, span, event.step)

    def _recorded(self, event: events.Recorded) -> None:
        name = event.loop or self._inferred.current
        if name is None and self._inferred.is_searching and not self.loops:
            self._unplaced[event.name] = event  # its loop may be found yet
            return
        for waiting in [*self._unplaced.values(), event]:
            self._loop(name or "train").record(waiting)
        self._unplaced.clear()

    def _sampled(self, event: events.ExecutableRan) -> None:
        self.executables.sampled(event)
        self._follow(self._inferred.ran(event.run, event.time))
        for loop in self.loops.values():
            loop.sampled(event.run)

    def _main_thread_sampled(self, event: events.MainThreadSampled) -> None:
        sampled = sum(check_row(activity, spent, count) for *_, activity, spent, count in event.rows)
        require(
            0.0 <= sampled <= seconds(event.end - event.start) + MOST_CARRIED,
            "more samples than there was time",
        )
        for name, line, waits_in, activity, spent, samples in event.rows:
            place = HostLine(line, waits_in, activity)
            if (loop := self.loops.get(name or self._inferred.current or "")) is not None:
                loop.main_thread_seen(place, spent, samples)
            else:
                self._outside_loops.add(place, spent, samples)

    def _finish_step(self, loop: Loop, span: Span, step: int) -> None:
        self._finished.append(span)
        loop.exemplify(self._exemplar(span, span.end - span.start), step)

    def _backend_found(self, event: events.BackendFound) -> None:
        self.devices.found(event)
        self.executables.local_devices = max(1, len(event.devices))

    def _loop_ended(self, event: events.LoopEnded) -> None:
        self._loop(event.loop).ended(event)
        self.run_time.loop_ended(event)
        self.profiles.loop_ended(event)

    def _phase_ended(self, event: events.PhaseEnded) -> None:
        if event.inside is None:
            self._inferred.phase_ended(event.start, event.end)
        self.run_time.phase_ended(event)
        self._finished += self._spans.of_phase(event)
        self.profiles.phase_ended(event)

    def _compile_phase_ended(self, event: events.CompilePhaseEnded) -> None:
        self.compiles.phase_ended(event)
        self.run_time.compile_ended(event)

    def _compiled(self, event: events.Compilation) -> None:
        self.recent.compiled(event)
        self.compiles.compiled(event)
        self._unclaimed.add(event)

    def _finish_compilation(self, event: events.Compilation, step: Span | None) -> None:
        """`step`: the span of the step in which it lay."""
        spans = self._spans.of_compilation(event, step)
        self._finished += spans
        for phase, start, end in event.phases:
            if phase == "backend":
                exemplar = self._exemplar(spans[0], end - start)
                self.series.exemplify(core.COMPILE_SECONDS, ("backend",), exemplar)
                break

    def _profile_window(self, event: events.ProfileWindow) -> None:
        self.profiles.ended(event)
        self._finished.append(self._spans.of_window(event, self.clock.wall_time(event.start)))

    def _exemplar(self, span: Span, duration: int) -> Exemplar:
        wall = self.clock.wall_time(span.end) / NANOSECONDS
        return Exemplar(f"{span.trace_id:032x}", f"{span.span_id:016x}", seconds(duration), wall)

    def _source(self, event: events.SourceReported) -> None:
        require(is_amount(event.seconds), "time spent that is no duration")
        name = event.source
        if (held := self._sources.get(name)) is not None and held.kind != event.kind:
            name = f"{event.kind} {name}"  # a probe and an exporter of one plugin may share its name
        self._sources[name] = event
        self.series.set(core.SOURCE_UP, (name,), None if has_nothing_to_tell(event) else float(event.up))
        self.series.total(core.SOURCE_SECONDS, (name,), event.seconds)
        if event.last_success is not None:
            at = self.clock.wall_time(event.last_success) / NANOSECONDS
            self.series.set(core.SOURCE_LAST_SUCCESS, (name,), at)
        if event.kind == "exporter":
            self.series.total(core.EXPORTER_FAILURES, (event.source,), event.failures)

    def _probe_reported(self, event: events.ProbeReported) -> None:
        require(is_amount(event.cpu_seconds), "CPU time that is no duration")
        if event.dropped > self._probe.dropped:
            self.compiles.events_lost()
        self._probe = event
        self.run_time.reported(event.time)

    def _show_bottlenecks(self) -> None:
        verdicts = {name: loop.verdict() for name, loop in self.loops.items()}
        self.series.replace(
            core.BOTTLENECK_INFO,
            (((name, verdict.label, verdict.runner_up or ""), 1.0) for name, verdict in verdicts.items()),
        )

    def _show_self(self) -> None:
        backend = self.devices.backend
        self.series.replace(
            core.BUILD_INFO,
            [(
                (
                    str(self._facts.get("jaxobs", "")), backend.jax_version if backend else "",
                    backend.jaxlib_version if backend else "", backend.platform if backend else "",
                    str(self._facts.get("agent", "")), self.address or "",
                ),
                1.0,
            )],
        )  # fmt: skip
        self.series.replace(core.RUN_INFO, [(run_labels(self._resource), 1.0)])
        heard = None if self.last_heard is None else self.clock.wall_time(self.last_heard) / NANOSECONDS
        self.series.set(core.LAST_HEARD, (), heard)
        for outcome, count in (
            ("accepted", self.accepted),
            ("dropped", self._probe.dropped),
            ("refused", self.refused + self._probe.refused),
        ):
            self.series.total(core.EVENTS, (outcome,), float(count))
        self.series.total(core.EVENTS_EMITTED, (), float(self._probe.emitted + self._emitted_here))
        self.series.total(core.LISTENERS_RESTORED, (), float(self._probe.listeners_restored))
        self.series.total(core.AGENT_CPU, ("probe",), self._probe.cpu_seconds)
        if self._cpu_of_agent is not None:
            self.series.total(core.AGENT_CPU, ("agent",), self._cpu_of_agent)
        self.series.set(core.AGENT_RESIDENT, (), None if self._resident is None else float(self._resident))

    def _document(self, now: int) -> dict[str, Any]:
        backend = self.devices.backend
        no_backend = None if backend else "JAX has made no backend yet"
        executables = self.executables.document()
        loops = {name: loop.document(self.executables) for name, loop in self.loops.items()}
        goodput = self.run_time.goodput()
        return {
            "process": process_document(self._resource, backend)
            | {
                "seconds": seconds(now - self._began),
                "run_seconds": dict(self.run_time.seconds),
                "goodput": goodput,
                "goodput_reason": NOT_MARKED if goodput is None else None,
                **self.under_way.document(now, self.executables.function_of),
                "persistent_cache": self.compiles.persistent_cache.document(),
                "address": self.address,
                "address_reason": None if self.address else "no exporter serves metrics",
                **self._facts,
                **self._outside_loops.document(),
                **self.memory.process_document(executables, now),
                "recent": self.recent.document(now),
            },
            "loops": loops,
            **self.compiles.document(),
            "executables": executables,
            **self.executables.left_out(),
            **self.profiles.document(),
            "devices": self.devices.document(
                self.memory.device_document,
                lambda reading, lately: clocks_document(reading, lately, loops, executables),
            ),
            "devices_reason": no_backend,
            "sources": {
                name: source_document(source, self._dropped_by.get(source.source))
                for name, source in sorted(self._sources.items())
            },
            "agent": agent_document(
                self._probe.emitted + self._emitted_here,
                self.accepted,
                self.refused + self._probe.refused,
                self._probe,
                self._cpu_of_agent,
                self._resident,
            )
            | {
                "pid": self.agent_pid,
                "pid_reason": None if self.agent_pid else IN_THE_JOB,
                "refused_reasons": self.series.refusals.reasons(),
            },
        }


def _each(*handlers: Callable[[Any], None]) -> Callable[[Any], None]:
    """One handler after the other; what the first refuses does not reach the next."""

    def handle(event: Any) -> None:
        for handler in handlers:
            handler(event)

    return handle
