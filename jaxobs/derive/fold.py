"""The fold: events in, snapshots out. Deterministic, without effects; each event type goes to the rooms that need it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any, Final

from jaxobs.derive.advice import advise
from jaxobs.derive.executables.registry import MAX_RUN_SECONDS
from jaxobs.derive.loops.found import Followed
from jaxobs.derive.loops.hangs import Sign, Where
from jaxobs.derive.process import RunsUnderWay, run_attributes
from jaxobs.derive.refusal import described, require_types
from jaxobs.derive.snapshot import Rooms, end_run_time, snapshot_view
from jaxobs.derive.steps import Steps, grouped
from jaxobs.derive.writer import Writer
from jaxobs.hardware.peaks import Peaks
from jaxobs.model import events
from jaxobs.model.clock import NANOSECONDS
from jaxobs.model.cost import ModuleCost
from jaxobs.model.snapshot import SnapshotData
from jaxobs.vocabulary.activities import DISPATCH, PROCESSOR
from jaxobs.vocabulary.words import CHECKPOINT

DISTURBED = 0.15
"""Largest share of a sampled run on a CPU in which a compile may run beside it: run times are good to 15 % anyway."""

MIN_RUNS: Final = 2
"""Runs of an executable from which on one that lasts can be compared: the one under way may be counted already."""

BACKWARD: Final = "transpose("
"""What the names of operations of a backward pass have in them: JAX's name for the transposed half of a gradient."""


class Fold(Rooms):
    """Folds the events of one training process into its rooms, and makes snapshots of them."""

    def apply(self, event: events.Event) -> None:
        """Fold one event.

        A malformed or impossible event is refused and counted, and the fold goes on. One with a refused value counts as
        refused and not as accepted, so each event is in exactly one count.
        """
        values_refused = self.series.refusals.values
        try:
            require_types(event)
            for handle in self._handlers[type(event)]:
                handle(event)
            if isinstance(event, Sign):
                self.hangs.seen(event)
            if self.series.refusals.values == values_refused:
                self.observation.accepted += 1
            else:
                self.observation.refused += 1
        except Exception as error:  # noqa: BLE001  # plugins may put anything into an event's fields
            self.observation.refused += 1
            self.series.refusals.note(described(event, error))

    def apply_own(self, event: events.Event) -> None:
        """Fold one event that did not come from the job: a collector's or exporter's, or the agent's report on one."""
        self.observation.emitted_here += 1
        self.apply(event)

    def apply_steps(self, rows: events.StepRows) -> events.StepRows:
        """Fold many plain steps, all at once where possible and otherwise one by one; return the rows of the steps.

        Unmarked calls are folded as the steps of the loops that are inferred from them.
        """
        folded: events.StepRows = []
        for steps in grouped(rows):
            self.hangs.steps_ended(steps)
            if steps.loop == events.UNMARKED:
                self.observation.accepted += len(steps)
                self.executables.ran(steps.runs)
                folded += self._follow(self.loops.inferred.follow(steps.rows))
            else:
                folded += self._follow(self.loops.inferred.end())  # marked steps win
                if (loop := self.loops.by_name.get(steps.loop)) is not None:
                    loop.inferred = False  # though it may have been found before
                self._fold_steps(steps, {})
                folded += steps.rows
        return folded

    def _follow(self, followed: Followed) -> events.StepRows:
        """Fold what unmarked calls turned out to be; as events they were counted when they came."""
        self.executables.ran_untimed(followed.outside, {})
        counts = self.observation.accepted, self.observation.refused
        for steps in grouped(followed.rows):
            try:
                loop = self.loops.named(steps.loop)
            except ValueError as error:  # there are too many
                self.series.refusals.note(f"{steps.loop}: {error}")
                self.executables.ran_untimed(steps.runs, {})
                continue
            self.executables.ran({run: -calls for run, calls in steps.runs.items()})  # steps are counted anew
            loop.inferred = True
            open_ended = followed.open_ended.get(steps.loop, ())
            loop.stretches.open_ended.extend(each for each in open_ended if steps.first <= each <= steps.last)
            self._fold_steps(steps, followed.saved)
        for completed in followed.completed:
            if completed.loop in self.loops.by_name:
                self.loops.by_name[completed.loop].stretches.completed(completed)
        self.observation.accepted, self.observation.refused = counts
        return followed.rows

    def _fold_steps(self, steps: Steps, saved: Mapping[tuple[str, int], int]) -> None:
        """Fold steps together or one by one. `saved`: nanoseconds of checkpoints in a step, by its loop and number."""
        if len(steps) > 1 and not saved:
            with contextlib.suppress(ValueError, TypeError):  # one by one, only the faulty steps are refused
                self._steps_ended(steps)
                self.observation.accepted += len(steps)
                return
        for event in steps.events():
            self.apply(event._replace(checkpoint=saved.get((event.loop, event.step), 0)))

    def _steps_ended(self, steps: Steps) -> None:
        """Fold steps, one or many. Raises ValueError, with nothing changed, where they are refused."""
        loop = self.loops.of(steps)
        completed = loop.steps_ended(steps)
        self.run_time.steps_ended(steps, found=loop.inferred)
        self.spans.steps_ended(steps, loop)
        for event in completed:
            self.spans.completed(event, loop)

    def stands_still(self, now: int) -> int | None:
        """Bring the watchdog up to date. Returns the thread of a loop whose stack the job is to be asked for, or None."""
        newest, under_way = self.run_time.newest(), self.under_way.at(now)
        loop = None if newest is None else self.loops.by_name.get(newest[0])
        where = Where(
            loop=loop,
            iterated=newest is not None and newest[1],
            excused=self.compile_times.in_progress_since() is not None or self.run_time.is_in_phase(now),
            under_way=under_way,
            function=None if under_way is None else self.executables.function_of(under_way.run),
            is_first_run=under_way is not None and self.executables.runs_of(under_way.run) < MIN_RUNS,
            heard=self.observation.last_heard,
            loads=self.devices.loads,
        )
        before = self.hangs.now
        is_due = self.hangs.look(now, where)
        if before is None and (hang := self.hangs.now) is not None:
            self.spans.hang_noticed(hang, now)
        return (loop.thread if loop else 0) if is_due else None

    def bind_peaks(self, kind: str, peaks: Peaks) -> None:
        """Take the peaks of a device kind; those of the first device's kind are the peaks for all executables."""
        self.devices.peaks[kind] = peaks
        backend = self.devices.backend
        if backend and backend.devices and backend.devices[0][1] == kind:
            self.executables.bind_peaks(peaks)

    def analysed(self, number: int, module: ModuleCost | None, reason: str = "") -> None:
        self.executables.analysed(number, module, reason)
        contents = None if module is None else module.contents
        self.compiles.analysed(self.executables.function_of(number), number, contents, reason)
        if module is not None:
            self.devices.dtypes |= module.cost.matrix_flops_by_type.keys()
            if any(BACKWARD in operation.operation_name for operation in module.operations):
                self.with_gradients |= {module.fingerprint}

    def end(self, now: int, *, by_itself: bool) -> None:
        """Close the run and show what was held back. `by_itself` is false where the job died without reporting it."""
        self._follow(self.loops.inferred.end())
        last = self.under_way.newest
        if by_itself:  # else it was killed where it stood
            self.hangs.got_on(now, pause=0)
            self.under_way = RunsUnderWay()
        self.loops.place_recorded()
        goodput = end_run_time(self, now, last).value
        attributes = run_attributes(self.resource, self.loops.steps, goodput, by_itself=by_itself)
        self.spans.run_ended(self.began, now, attributes)

    def snapshot(self, now: int) -> SnapshotData:
        self._follow(self.loops.inferred.settle(now))
        self.spans.settle(now)
        view = snapshot_view(self, now)
        advice = advise(view)
        self._writer.write(view, advice)
        return SnapshotData(now, partial(self._writer.document, view, advice), self.series.families())

    @cached_property
    def _writer(self) -> Writer:
        return Writer(self)

    @cached_property
    def _handlers(self) -> dict[type, tuple[Callable[[Any], object], ...]]:
        """The handlers that get each type of event, in order; one refused by a handler does not reach the next."""
        return {
            events.Measured: (lambda event: self.series.measured(event.metric, event.labels, event.value),),
            events.SpanEnded: (self.spans.plugin_ended,),
            events.StepEnded: (lambda event: self._steps_ended(Steps.of(event)),),
            events.StepCompleted: (self._step_completed, self.under_way.ended),
            events.TurnsAsked: (self._turns_asked,),
            events.LoopDeclared: (lambda event: self.loops.named(event.loop).declared(event),),
            events.LoopEntered: (
                lambda event: self.loops.named(event.loop).entered(),
                self.run_time.loop_entered,
            ),
            events.LoopEnded: (
                lambda event: self.loops.named(event.loop).ended(event),
                self.run_time.loop_ended,
            ),
            events.PhaseStarted: (self.run_time.phase_started,),
            events.PhaseEnded: (self._phase_ended,),
            events.Recorded: (self.loops.recorded,),
            events.FunctionWatched: (self.executables.watched,),
            events.FunctionCalled: (self._function_called,),
            events.ExecutableRan: (self._sampled, self.under_way.ended),
            events.RunUnderWay: (self.under_way.seen,),
            events.CompilePhaseStarted: (self.compile_times.phase_started,),
            events.CompilePhaseEnded: (
                self.compiles.phase_ended,
                self.compile_times.phase_ended,
                self.run_time.compile_ended,
            ),
            events.Compilation: (
                self.compiles.compiled,
                self.compile_times.compiled,
                self.spans.compiled,
                self.slowdowns.compiled,
            ),
            events.ExecutableCreated: (self.executables.created, self.compiles.created),
            events.BackendFound: (self._backend_found,),
            events.MemorySampled: (self.memory.sampled,),
            events.LiveArraysCounted: (self.memory.counted,),
            events.MainThreadSampled: (self.loops.main_thread_sampled,),
            events.StacksTaken: (self.hangs.answered,),
            events.ProfileWindow: (self.profiles.ended, self.spans.window_ended),
            events.SourceReported: (self.observation.source_reported,),
            events.ProbeReported: (self._probe_reported,),
        }

    def _function_called(self, event: events.FunctionCalled) -> None:
        calls = {event.run: event.calls}
        self.executables.ran(calls)
        self.executables.ran_untimed(calls, {})
        self.loops.called(event.thread, calls, event.time)

    def _turns_asked(self, event: events.TurnsAsked) -> None:
        if name := event.loop or self.loops.inferred.loop_of(event.run):
            self.loops.named(name).stretches.asked(event)

    def _step_completed(self, event: events.StepCompleted) -> None:
        if event.loop == events.UNMARKED:
            if (completed := self.loops.inferred.completed(event)) is None:
                return
            event = completed
        loop = self.loops.named(event.loop)
        loop.stretches.completed(event)
        self.spans.completed(event, loop)

    def _sampled(self, event: events.ExecutableRan) -> None:
        if not self._is_disturbed(event):
            self.executables.sampled(event)
        self._follow(self.loops.inferred.ran(event.run, event.time))

    def _is_disturbed(self, event: events.ExecutableRan) -> bool:
        """Whether a compile competed with the run for the processors of a CPU backend for too long."""
        backend = self.devices.backend
        if backend is None or backend.platform != "cpu" or not 0 < event.seconds <= MAX_RUN_SECONDS:
            return False
        took = round(event.seconds * NANOSECONDS)
        return self.compile_times.anywhere_within(event.time - took, event.time) > DISTURBED * took

    def _backend_found(self, event: events.BackendFound) -> None:
        self.devices.backend = event
        self.executables.local_devices = max(1, len(event.devices))
        self.loops.dispatch = DISPATCH if event.platform == "cpu" else PROCESSOR

    def _phase_ended(self, event: events.PhaseEnded) -> None:
        self.run_time.phase_ended(event)
        self.spans.phase_ended(event)
        if event.inside is None:
            self.loops.inferred.phase_ended(event.start, event.end, checkpoint=event.phase == CHECKPOINT)
        else:
            self.loops.named(event.inside).phase_ended(event)

    def _probe_reported(self, event: events.ProbeReported) -> None:
        if self.observation.probe_reported(event):
            self.compile_times.events_lost()
            self.run_time.events_lost()
        self.run_time.reported(event.time, event.dropped / max(1, event.emitted))
