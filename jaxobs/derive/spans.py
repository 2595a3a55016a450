"""Makes spans of compiles, the steps they delayed, sampled and slow steps, phases, profiler windows, hangs, the run.

Trace and span ids are derived and not random, so that the ranks of a job put the same step into the same trace.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Mapping
from itertools import pairwise, takewhile

from jaxobs.derive.compiles import Compiles
from jaxobs.derive.loops.hangs import Hang
from jaxobs.derive.loops.loop import Loop
from jaxobs.derive.steps import Steps
from jaxobs.model.clock import NANOSECONDS, ClockAnchor, seconds
from jaxobs.model.events import (
    Attributes,
    AttributeValue,
    Compilation,
    PhaseEnded,
    ProfileWindow,
    Span,
    SpanContext,
    SpanEnded,
    StepCompleted,
    StepEnded,
)
from jaxobs.model.metrics import Exemplar
from jaxobs.vocabulary.text import EAGER, OTHER

PATIENCE = 60 * NANOSECONDS
"""Time after which a compile is shown without a step: there is no loop, or its first step takes longer than this."""

APART = 1 * NANOSECONDS
"""Longest time between two phases of one compile: 0.3 to 8 ms were measured in one of 150 ms."""

SAMPLED_EVERY = 10 * NANOSECONDS
SLOW_EVERY = 1 * NANOSECONDS
"""Least nanoseconds between two spans of sampled steps, and of slow steps, of one loop: a trace store is no place for
every step of a month."""

LONG_PHASE = 1 * NANOSECONDS
"""Nanoseconds from which on each phase gets a span; of shorter ones one a second does, for each name."""

SLOW = 3.0
"""A step this many times slower than its loop's average gets a span."""

AVERAGED = 0.1
"""Weight of a new step in the moving average of its loop's step times."""

SHOWN_REMEMBERED = 512
"""Steps of a loop whose spans are remembered, so that a completion that comes later makes no second one."""

MAX_NAMES = 100
"""Names of loops and phases whose last spans are remembered: phases of further names share one."""

SAMPLED = 1
"""The bit of a span's flags that says that it is kept, and leads from an exemplar (W3C Trace Context)."""

PHASE_NAMES = {"backend": "backend_compile"}


class FinishedSpans:
    """Makes spans, decides which steps and phases get one, and collects the finished ones until they are taken.

    `instance` identifies this process, `job` the start of the job on all its ranks; None where that is not known.
    """

    def __init__(self, compilations: Compiles, clock: ClockAnchor, instance: str, job: str | None) -> None:
        self._compilations = compilations
        self._clock = clock
        self._instance = instance
        self._job = instance if job is None else job
        self._finished: list[Span] = []
        self._unattributed: deque[Compilation] = deque()
        """Compiles whose spans wait for that of the step they delayed, in the order in which they ended."""
        self._average: dict[str, float] = {}
        self._last: dict[tuple[str, str], int] = {}
        self._shown: dict[str, deque[int]] = {}
        self._of_plugins = 0

    def take(self) -> list[Span]:
        """Take the spans that finished since the last call."""
        finished, self._finished = self._finished, []
        return finished

    def plugin_ended(self, event: SpanEnded) -> None:
        name, start, end, attributes, parent = event
        trace = self._trace(parent, name, start, end)
        self._of_plugins += 1  # a plugin may end two spans of one name in the same nanosecond
        own = self._identity(64, "span", name, start, end, self._of_plugins)
        self._finished.append(Span(name, trace, own, parent, start, end, attributes))

    def steps_ended(self, steps: Steps, loop: Loop) -> None:
        single = len(steps) == 1
        compilations = self._compiled_within(steps.thread, steps.starts[0], steps.end) if single else []
        shown = self._worth_showing(steps, loop, compiled=bool(compilations))
        if shown is None:
            return
        step, why = shown
        self._shown.setdefault(steps.loop, deque(maxlen=SHOWN_REMEMBERED)).append(step)
        span = self._step(steps.event(step), None, why)
        self._finish_step(loop, step, span)
        for compilation in compilations:
            self._finish_compilation(compilation, span)

    def completed(self, event: StepCompleted, loop: Loop) -> None:
        """Finish the span of a sampled step that has ended; of one that has not, the loop keeps the completion."""
        steps = loop.stretches.log.of(event.step)
        if steps is None or event.step in self._shown.get(event.loop, ()):
            return  # not yet, or it has a span already
        if self._is_due(event.loop, "sampled", event.time, SAMPLED_EVERY):
            self._finish_step(loop, event.step, self._step(steps.event(event.step), event, "sampled"))

    def phase_ended(self, event: PhaseEnded) -> None:
        """Finish a span for each phase that took long, and for a short one now and then."""
        is_known = (event.phase, "phase") in self._last or len(self._last) < MAX_NAMES
        is_due = self._is_due(event.phase if is_known else OTHER, "phase", event.end, SLOW_EVERY)
        if not is_due and event.end - event.start < LONG_PHASE:
            return
        trace = self._identity(128, "phase", event.phase, event.start)
        own = self._identity(64, "user's phase", event.phase, event.start)
        attributes = _known({"jax.phase": event.phase, "jax.loop": event.inside})
        self._finished.append(Span("jax.phase", trace, own, None, event.start, event.end, attributes))

    def compiled(self, event: Compilation) -> None:
        """Take a compile. Its span is made when that of the step it delayed is known.

        A phase long before the next is no part of it: `jax.eval_shape` may have traced the function minutes ago.
        """
        phases = event.phases
        for number, (earlier, later) in enumerate(pairwise(event.phases), 1):
            if later[1] - earlier[2] > APART:
                phases = event.phases[number:]
        self._unattributed.append(event._replace(phases=phases))

    def window_ended(self, event: ProfileWindow) -> None:
        """Finish a window's span. Windows requested in one minute share a trace: all ranks are asked at once."""
        minute = self._clock.wall_time(event.start) // (60 * NANOSECONDS)
        trace = self._identity(128, "profile", event.start)
        if event.kind == "requested":
            trace = _hash(128, self._job, "profile", minute)
        own = self._identity(64, "profile", event.kind, event.start)
        attributes = _known({
            "jax.profile.kind": event.kind,
            "jax.profile.outcome": event.outcome,
            "jax.profile.cost_seconds": seconds(event.cost),
            "file.path": event.path or None,
            "jax.profile.reason": event.reason or None,
        })  # fmt: skip
        self._finished.append(Span("jax.profile", trace, own, None, event.start, event.end, attributes))

    def hang_noticed(self, hang: Hang, now: int) -> None:
        """Finish a span of a loop that stands still, up to now: it may last for ever. Ranks share a trace, as above."""
        minute = self._clock.wall_time(now) // (60 * NANOSECONDS)
        trace = _hash(128, self._job, "hang", minute)
        own = self._identity(64, "hang", hang.loop, hang.began)
        stuck = hang.stuck
        attributes = _known({
            "jax.loop": hang.loop,
            "jax.hang.steps": hang.steps,
            "jax.hang.reason": hang.silence or None,
            "jax.hang.line": stuck and stuck.line,
            "jax.hang.activity": stuck and stuck.activity,
            "jax.function": hang.function,
        })  # fmt: skip
        self._finished.append(Span("jax.hang", trace, own, None, hang.began, now, attributes))

    def settle(self, now: int, patience: int = PATIENCE) -> None:
        """Finish, without a step, the spans of compilations that have waited for one longer than `patience`."""
        while self._unattributed and ended(self._unattributed[0]) < now - patience:
            self._finish_compilation(self._unattributed.popleft(), None)

    def run_ended(self, began: int, now: int, attributes: Attributes) -> None:
        """Finish the span of the whole run, when it is over; the ranks of a job put theirs into one trace."""
        self.settle(now, patience=-1)
        own = self._identity(64, "run", began)
        trace = _hash(128, self._job, "run")
        self._finished.append(Span("jax.run", trace, own, None, began, now, attributes))

    def _compiled_within(self, thread: int, start: int, end: int) -> list[Compilation]:
        """Take the compiles that lay in a thread's step [start, end]. The innermost step asks first."""
        late = takewhile(lambda each: ended(each) >= start, reversed(self._unattributed))
        inside = [one for one in late if one.thread == thread and start <= began(one) and ended(one) <= end]
        if inside:
            self._unattributed = deque(each for each in self._unattributed if each not in inside)
        return inside[::-1]

    def _finish_step(self, loop: Loop, step: int, span: Span) -> None:
        self._finished.append(span)
        if context_of(span).trace_flags & SAMPLED:
            loop.exemplify(self._exemplar(span, span.end - span.start), step)

    def _finish_compilation(self, event: Compilation, step: Span | None) -> None:
        """Make the spans of a compilation; `step`: the span of the step that it lay in."""
        spans = self._of_compilation(event, step)
        self._finished += spans
        for phase, start, end in event.phases if context_of(spans[0]).trace_flags & SAMPLED else ():
            if phase == "backend" and phase in self._compilations.phases:
                self._compilations.phases[phase].exemplify(self._exemplar(spans[0], end - start))

    def _exemplar(self, span: Span, duration: int) -> Exemplar:
        at = self._clock.unix_seconds(span.end)
        return Exemplar(f"{span.trace_id:032x}", f"{span.span_id:016x}", seconds(duration), at)

    def _of_compilation(self, event: Compilation, step: Span | None) -> list[Span]:
        """The spans of a compilation: `jax.compile` first, then its phases as its children.

        It is a child of the step it delayed, unless the application has a span of its own inside that step.
        """
        start, end = began(event), ended(event)
        if step is not None and event.parent in {None, step.parent}:
            event = event._replace(parent=context_of(step))
        trace = self._trace(event.parent, "compile", event.executable, start)
        own = self._identity(64, "compile", event.executable, start)
        attributes = _known({
            "jax.function": event.function,
            "jax.persistent_cache": event.persistent_cache,
            "jax.recompilation.cause": event.recompilation,
            **dict(event.attributes),
        })  # fmt: skip
        spans = [Span("jax.compile", trace, own, event.parent, start, end, attributes)]
        if event.function != EAGER:  # hundreds of them, a millisecond each
            parent = context_of(spans[0])
            for phase, begin, stop in event.phases:
                child = self._identity(64, "phase", phase, event.executable, begin)
                name = PHASE_NAMES.get(phase, phase)
                spans.append(Span(name, trace, child, parent, begin, stop, attributes[:1]))
        return spans

    def _worth_showing(self, steps: Steps, of: Loop, *, compiled: bool) -> tuple[int, str] | None:
        """The number of a step that gets a span, and why: something compiled in it, or it is unusually slow."""
        loop, turns = steps.loop, steps.lengths
        average = self._average.get(loop, float(turns[0]))
        forgotten = (1 - AVERAGED) ** len(turns)
        self._average[loop] = forgotten * average + (1 - forgotten) * sum(turns) / len(turns)
        if compiled:
            return steps.first, "compiled"
        longest = max(turns)
        slowest = turns.index(longest)
        is_slow = of.steps > SLOW and longest > SLOW * average
        if is_slow and self._is_due(loop, "slow", steps.ends[slowest], SLOW_EVERY):
            return steps.first + slowest, "slow"
        return None

    def _step(self, event: StepEnded, completed: StepCompleted | None, why: str) -> Span:
        of_all_ranks = _hash(128, self._job, "step", event.loop, event.step)
        trace = event.parent.trace_id if event.parent else of_all_ranks
        attributes = _known({
            "jax.loop": event.loop,
            "jax.step": event.step,
            "jax.step.why": why,
            "jax.step.input_wait_seconds": seconds(event.input_wait),
            "jax.step.dispatch_seconds": seconds(event.dispatch),
            "jax.step.failed": event.failed,
            "jax.step.completed_after_seconds": completed and seconds(completed.time - event.start),
        })  # fmt: skip
        end = event.end if completed is None else max(event.end, completed.time)
        own = self._identity(64, "step", event.loop, event.step, event.start)
        return Span("jax.step", trace, own, event.parent, event.start, end, attributes)

    def _is_due(self, loop: str, why: str, at: int, every: int) -> bool:
        last = self._last.get((loop, why))
        if last is not None and at - last < every:
            return False
        self._last[loop, why] = at
        return True

    def _trace(self, parent: SpanContext | None, *parts: object) -> int:
        """The trace of the application's own span around, or else one of its own."""
        return parent.trace_id if parent is not None else self._identity(128, *parts)

    def _identity(self, bits: int, *parts: object) -> int:
        return _hash(bits, self._instance, *parts)


def began(compilation: Compilation) -> int:
    """When the compilation's first phase began."""
    return min((begin for _, begin, _ in compilation.phases), default=compilation.time)


def ended(compilation: Compilation) -> int:
    """When the compilation's last phase ended or it was reported, whichever is later."""
    return max([compilation.time, *(stop for _, _, stop in compilation.phases)])


def _known(attributes: Mapping[str, AttributeValue | None]) -> Attributes:
    """The attributes that have a value."""
    return tuple((name, value) for name, value in attributes.items() if value is not None)


def context_of(span: Span) -> SpanContext:
    """The context by which other spans become children of this one; it is sampled if this span's parent was."""
    return SpanContext(span.trace_id, span.span_id, span.parent.trace_flags if span.parent else 1)


def _hash(bits: int, *parts: object) -> int:
    """A hash of the parts as an id of so many bits; never 0, which OpenTelemetry takes for invalid."""
    text = "\0".join(str(part) for part in parts).encode("utf-8", "replace")
    return int.from_bytes(hashlib.blake2b(text, digest_size=bits // 8).digest()) or 1
