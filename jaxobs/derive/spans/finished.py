"""The finished spans, in the order in which they finished, and the exemplars that point to them."""

from __future__ import annotations

from collections.abc import Iterable

from jaxobs.derive.loops.loop import Loop
from jaxobs.derive.metrics.catalogue import compilation_metrics
from jaxobs.derive.metrics.series import Series
from jaxobs.derive.spans.spans import Spans
from jaxobs.derive.spans.unattributed import PATIENCE, UnattributedCompiles
from jaxobs.derive.steps.plain_steps import PlainSteps
from jaxobs.model import events
from jaxobs.model.clock import NANOSECONDS, ClockAnchor, seconds
from jaxobs.model.events import Span
from jaxobs.model.metrics import Exemplar


class FinishedSpans:
    """Collects finished spans until they are taken.

    `instance` identifies this process, `job` the start of the job on all its ranks; None where that is not known.
    """

    def __init__(self, series: Series, clock: ClockAnchor, instance: str, job: str | None) -> None:
        self._series = series
        self._clock = clock
        self._spans = Spans(instance, job)
        self._finished: list[Span] = []
        self._unattributed = UnattributedCompiles()

    def take(self) -> list[Span]:
        """Take the spans that finished since the last call."""
        finished, self._finished = self._finished, []
        return finished

    def plugin_ended(self, event: events.SpanEnded) -> None:
        self._finished.append(self._spans.of_plugin(event))

    def step_ended(self, event: events.StepEnded, loop: Loop) -> None:
        compilations = self._unattributed.within(event.thread, event.start, event.end)
        for span in self._spans.of_step(event, compiled=bool(compilations)):
            self._finish_steps(loop, [(event.step, span)])
            for compilation in compilations:
                self._finish_compilation(compilation, span)

    def steps_ended(self, steps: PlainSteps, loop: Loop) -> None:
        self._finish_steps(loop, self._spans.of_steps(steps))

    def completed(self, event: events.StepCompleted, loop: Loop) -> None:
        self._finish_steps(loop, ((event.step, span) for span in self._spans.of_completion(event)))

    def phase_ended(self, event: events.PhaseEnded) -> None:
        self._finished += self._spans.of_phase(event)

    def compiled(self, event: events.Compilation) -> None:
        """Take a compile. Its span is made when that of the step it delayed is known."""
        self._unattributed.add(event)

    def window_ended(self, event: events.ProfileWindow) -> None:
        self._finished.append(self._spans.of_window(event, self._clock.wall_time(event.start)))

    def settle(self, now: int, patience: int = PATIENCE) -> None:
        """Finish, without a step, the spans of compilations that have waited for one longer than `patience`."""
        for compilation in self._unattributed.ended_before(now - patience):
            self._finish_compilation(compilation, None)

    def run_ended(self, began: int, now: int, attributes: events.Attributes) -> None:
        self.settle(now, patience=-1)
        self._finished.append(self._spans.of_run(began, now, attributes))

    def _finish_steps(self, loop: Loop, spans: Iterable[tuple[int, Span]]) -> None:
        for step, span in spans:
            self._finished.append(span)
            loop.times.exemplify(self._exemplar(span, span.end - span.start), step)

    def _finish_compilation(self, event: events.Compilation, step: Span | None) -> None:
        """Make the spans of a compilation; `step`: the span of the step that it lay in."""
        spans = self._spans.of_compilation(event, step)
        self._finished += spans
        for phase, start, end in event.phases:
            if phase == "backend":
                exemplar = self._exemplar(spans[0], end - start)
                self._series.exemplify(compilation_metrics.COMPILE_SECONDS, ("backend",), exemplar)
                break

    def _exemplar(self, span: Span, duration: int) -> Exemplar:
        wall = self._clock.wall_time(span.end) / NANOSECONDS
        return Exemplar(f"{span.trace_id:032x}", f"{span.span_id:016x}", seconds(duration), wall)
