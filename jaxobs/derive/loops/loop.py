"""One of the user's loops: its steps, where their time went, and how well the device was used."""

from __future__ import annotations

import math
import statistics
from collections import Counter, deque
from collections.abc import Iterator, Mapping

from jaxobs.derive.executables.executable import SAMPLES_KEPT, Executable
from jaxobs.derive.loops.amounts import Amounts
from jaxobs.derive.loops.collaborators import Collaborators
from jaxobs.derive.loops.host_lines import HostLine, HostLines
from jaxobs.derive.loops.liveness import SignsOfLife
from jaxobs.derive.loops.timing.device_time import LoopDeviceTime
from jaxobs.derive.loops.timing.elapsed import elapsed_seconds
from jaxobs.derive.loops.timing.step_times import StepTimes
from jaxobs.derive.loops.utilization import NO_END_SEEN, LoopWork, Work, work_of
from jaxobs.derive.loops.wall_time import bottleneck
from jaxobs.derive.loops.wall_time.components import Charged, components_of
from jaxobs.derive.loops.wall_time.host_evidence import host_shares
from jaxobs.derive.loops.wall_time.stalls import STEPS_KEPT, Stalls
from jaxobs.derive.loops.wall_time.traced_steps import host_is_ahead
from jaxobs.derive.loops.wall_time.window import Slice, Window, why_quiet
from jaxobs.derive.metrics.catalogue import loop_metrics
from jaxobs.derive.metrics.series import Series
from jaxobs.derive.profiler_windows.loop_profile import LoopProfile
from jaxobs.derive.profiler_windows.parts import StepSpan
from jaxobs.derive.refusal import is_amount, require
from jaxobs.derive.steps.plain_steps import NotPlainError, PlainSteps
from jaxobs.model.clock import NANOSECONDS, each_in_seconds, seconds
from jaxobs.model.events import (
    RECORDED_NAMES,
    LoopDeclared,
    LoopEnded,
    Recorded,
    StepCompleted,
    StepEnded,
    TurnsAsked,
)
from jaxobs.roofline_model.bottleneck import Verdict
from jaxobs.roofline_model.bounds import Utilization
from jaxobs.vocabulary.words import COMPONENTS

STARTING_STEPS = 2
"""First steps whose compiles belong to the start: a jitted function compiles at its first call, and often again at its
second, whose arguments are its own results."""


class Loop:
    """State of one loop, by the name the user gave it."""

    def __init__(self, name: str, series: Series, signs: SignsOfLife, collaborators: Collaborators) -> None:
        self.name = name
        self._compilations, self._executables, self._runs, self._windows = collaborators
        self._series = series
        self._signs = signs
        self.inferred = False
        """Whether nobody marked the loop, and it was found by what repeats."""
        self.steps = 0
        self.failed = 0
        self.amounts = Amounts(name, series.refuse)
        self.wall = 0.0
        """Seconds of the host in the loop, and of the device after it with runs that the loop had dispatched."""
        self._host_wall = 0.0
        """Seconds of the host in the loop, without compiles, up to the last `update`."""
        self.components: dict[str, float] = dict.fromkeys(COMPONENTS, 0.0)
        self.recorded: dict[str, float | None] = {}
        self.window = Window()
        self._pending = Slice(0)
        self.host = HostLines(name, series)
        self._work = LoopWork(name, series, collaborators.executables, collaborators.runs)
        self.recent, self.settled, self.did = Slice(0), Slice(0), Work()
        self.charged = Charged({}, 0.0, 0.0, 0.0)
        self._unattributed: Mapping[str, float] = {}
        self._sampled_paces: deque[float] = deque(maxlen=SAMPLES_KEPT)
        self.quiet: str | None = None
        self.in_doubt = False
        self.profile: LoopProfile | None = None
        self.why_no_profile = ""
        self._compiled_here: set[str] = set()
        self.asked: Counter[str] = Counter()
        """Turns at whose end an output was asked for, and those that found it ready."""
        self.stalls = Stalls()
        self.times = StepTimes(name, series, self._runs.spaced)
        self._device_time = LoopDeviceTime(self._runs, lambda: self.times.host_seems_to_wait)
        self.last_end: int | None = None
        """When its last step ended, in monotonic nanoseconds."""

    def step_ended(self, event: StepEnded) -> None:
        turn = event.gap + event.end - event.start - event.nested
        parts = (event.gap, event.input_wait, event.dispatch, event.nested, event.checkpoint)
        require(event.end >= event.start and min(turn, *parts) >= 0, "a step of negative duration")
        self._compilations.leave_out_phases(self.name, event.thread)
        overlap, began = self._compilations.overlap, event.start - event.gap
        waiting = overlap(event.thread, event.start, event.start + event.input_wait, forget=False)
        in_gap = overlap(event.thread, began, event.start, forget=False)
        compiling = min(turn, overlap(event.thread, began, event.end, forget=True))
        functions = self._compilations.compiled_within(event.thread, began, event.end)
        if functions:
            self._compiled_here |= functions
            self._windows.compiled(self.name, functions, event.end)
        self._windows.steps_ended(self.name, StepSpan.of(event, turn, compiling))
        self.steps += 1
        self.failed += event.failed
        self._device_time.step_ended(event, self._host_seconds())
        self._leave_doubtful_out()
        piece = Slice(event.end, seconds(turn), 1, seconds(compiling), runs=Counter(event.runs))
        piece.examples = self.amounts.take("examples", event.examples)
        piece.tokens = self.amounts.take("tokens", event.tokens)
        self._pending.add(piece)
        if compiling and self.steps <= STARTING_STEPS:
            self._pending.start = self._pending.start or Slice(event.end)
            self._pending.start.add(piece)
        self._pending.checkpoint += seconds(event.checkpoint)
        self._pending.input_wait += seconds(max(0, event.input_wait - waiting))
        own = (
            turn
            - event.gap
            - max(0, compiling - in_gap)
            - event.checkpoint
            - max(0, event.input_wait - waiting)
        )
        self._judge(event, max(0, own))
        for run in event.runs:
            self._work.ran(run)
            self._runs.ran_in_loop(run)
        self.last_end = event.end
        self.times.step_ended(event, turn, compiling)

    def steps_ended(self, steps: PlainSteps) -> None:
        """Add many steps at once. Raises NotPlainError, and changes nothing, where they must be added one by one."""
        apart = self._compilations.is_apart(steps.thread, steps.starts[0] - steps.gaps[0])
        if not (apart and steps.is_sound()) or steps.are_interrupted():
            raise NotPlainError
        if self.stalls.is_long(seconds(max(steps.bodies))):
            raise NotPlainError
        examples, tokens = steps.total(7), steps.total(8)
        self._windows.steps_ended(self.name, steps)
        self._device_time.steps_ended(steps, self._host_seconds())
        self._leave_doubtful_out()
        self.steps += len(steps)
        self._pending.steps += len(steps)
        self._pending.wall += seconds(sum(steps.turns))
        self._pending.input_wait += seconds(sum(steps.waits))
        self.stalls.steps(each_in_seconds(steps.bodies[-STEPS_KEPT:]))
        for run, calls in steps.runs.items():
            self._pending.runs[run] += calls
            self._work.ran(run, calls)
            self._runs.ran_in_loop(run, calls)
        amounts = (self.amounts.take("examples", examples), self.amounts.take("tokens", tokens))
        self._pending.add(Slice(0, examples=amounts[0], tokens=amounts[1]))
        self.last_end = steps.ends[-1]
        self.times.steps_ended(steps)

    def _host_seconds(self) -> float:
        """Seconds of the host in the loop so far, without compiles, in which the device is mostly idle."""
        return self._host_wall + self._pending.wall - self._pending.compiling

    def _leave_doubtful_out(self) -> None:
        """Take the steps since the loop was entered for doubtful where the newest, not added yet, shows them to be."""
        if (since := self._device_time.doubtful_since()) is not None:
            self.window.doubt(since)
            self._pending.doubt()
            self.times.doubt()

    def _judge(self, event: StepEnded, own: int) -> None:
        """Add a step with `own` nanoseconds to the stalls. Its other time is explained, and may be silent, too."""
        silent = 0
        if self.stalls.is_long(seconds(own)):
            explained = event.end - event.start - own
            longest = round((self.stalls.limit or 0.0) * NANOSECONDS)
            silent = self._signs.silent(event.start, event.end, longest) - explained
        self.stalls.step(seconds(own), seconds(silent))

    def completed(self, event: StepCompleted) -> None:
        self.times.completed(event)
        self._device_time.completed(event)

    def turns_asked(self, event: TurnsAsked) -> None:
        require(0 <= event.ready <= event.asked, "more turns with a finished output than were asked")
        self.asked.update(asked=event.asked, ready=event.ready)

    def sampled(self, run: int) -> None:
        """A run was timed by polling: if it is one of this loop's, it was at the pace of the slice under way."""
        if run in self._pending.runs or run in self.recent.runs:
            self._pending.samples += 1

    def main_thread_seen(self, line: HostLine, spent: float, samples: int) -> None:
        """The main thread spent `spent` seconds at this line while a step of this loop was under way."""
        self.host.add(line, spent, samples)
        self._pending.host[line.activity] = self._pending.host.get(line.activity, 0.0) + spent

    def declared(self, event: LoopDeclared) -> None:
        require(
            is_amount(event.model_flops) and event.model_flops > 0, "model FLOPs that are no positive number"
        )
        self._work.model_flops = event.model_flops

    def ended(self, event: LoopEnded) -> None:
        require(event.input_wait >= 0, "a wait of negative duration")
        self._pending.wall += seconds(event.input_wait)
        self._pending.input_wait += seconds(event.input_wait)
        self._device_time.loop_ended(event.time)

    def record(self, event: Recorded) -> None:
        require(event.name in self.recorded or len(self.recorded) < RECORDED_NAMES, "too many recorded names")
        self.recorded[event.name] = event.value if math.isfinite(event.value) else None
        self._series.set(loop_metrics.RECORDED, (self.name, event.name), event.value)

    def update(self, now: int) -> None:
        """Close the slice since the last update: charge its wall time, count its work."""
        self.profile = self._windows.of(self.name, now)
        self.why_no_profile = self._windows.why_none(self.name)
        self._host_wall = self._host_seconds()
        self._device_time.count(self._host_wall, now)
        after = self._device_time.take(self._pending.spent)
        self._pending.wall += after
        self.times.device_went_on(after)
        if self._pending.wall <= 0.0:
            self._settle(now)
            return
        piece, self._pending = self._pending, Slice(now)
        piece.end = now
        if (step_seconds := self.times.completed_pace()) is not None:
            piece.behind = self._device_time.behind(step_seconds)
        charged = self._charged(piece, self._unattributed)
        components, self._unattributed = charged.components, charged.unattributed
        self.wall += piece.wall
        piece.apart = sum(components[word] for word in ("compile", "checkpoint", "input"))
        for word, amount in components.items():
            self.components[word] += amount
            self._series.add(loop_metrics.COMPONENT_SECONDS, (self.name, word), amount)
        if (pace := piece.pace) is not None:
            self._sampled_paces.extend([pace] * min(piece.samples, SAMPLES_KEPT))
        self.window.append(piece)
        self._settle(now)

    def _charged(self, piece: Slice, unattributed: Mapping[str, float] | None = None) -> Charged:
        host = host_shares(piece.host, piece.wall, self.recent.host)
        return components_of(
            piece, self._executables.get, self.profile, all_watched=self._unwatched() is None,
            ahead=host_is_ahead(self.profile, self.recent), unattributed=unattributed, host=host,
        )  # fmt: skip

    def _settle(self, now: int) -> None:
        self._work.count()
        self.host.update()
        self.recent = self.window.total()
        self.quiet = why_quiet(self.recent, now)
        if self.quiet is not None:
            self.recent = Slice(now)
        in_doubt = self._device_time.doubtful_steps > 0
        known = self.window.total(self._device_time.entry.time) if in_doubt else self.recent
        self.settled, self.in_doubt = known.settled(), in_doubt or self.recent.doubtful is not None
        self.did = work_of(self.settled.runs, self._executables.get)
        # By what is known now: a profiler window shows what the steps before it did, too.
        self.charged = self._charged(self.recent)

    def verdict(self) -> Verdict:
        """The bottleneck of the last window."""
        if self.quiet is not None:
            return Verdict("unknown", 0.0, None, reason=self.quiet)
        recent, charged = self.recent, self.charged
        off = charged.doubtful + charged.sampled * self._change_of_pace()
        # While the host was seen to wait for the device, the device was busy, whatever the sampled times of runs are.
        waited = recent.wall * host_shares(recent.host, recent.wall, recent.host).waiting
        doubtful = max(0.0, min(charged.sampled, off, recent.wall - waited))
        return bottleneck.decide(charged.components, recent.steps, charged.by_operation, doubtful)

    def _change_of_pace(self) -> float:
        """Share by which runs follow each other faster or slower now than while some of them were timed.

        Until new runs are timed it is not known whether the device or the host is the reason.
        """
        pace = self.window.pace()
        if pace is None or not self._sampled_paces:
            return 0.0
        return abs(pace / statistics.median(self._sampled_paces) - 1)

    def utilization(self) -> Utilization:
        if self.quiet is not None:
            return Utilization(None, None, self.quiet)
        elapsed = self.elapsed()
        used = self._work.utilization(
            self.settled, self.did, elapsed=elapsed or self.settled.wall, profile=self.profile,
            unwatched=self._unwatched(), times=self.times,
        )  # fmt: skip
        no_end = self.in_doubt if self.settled.wall <= 0 else not elapsed and used.mfu is not None
        if not no_end:
            return used
        return Utilization(None, None, self._executables.why_unseen(self.recent.runs) or NO_END_SEEN)

    def ran(self) -> Iterator[Executable]:
        """The executables that ran in the last window, as far as it is visible which ones ran."""
        found = map(self._executables.get, self.recent.runs)
        return (executable for executable in found if executable is not None)

    def elapsed(self) -> float:
        """Seconds of the settled steps: the host's, and those for which the device worked on after the host.

        0 where it is not known how far the device was behind.
        """
        before = self.window.behind_before
        return elapsed_seconds(self.settled, self.did, before, self.times, self._device_time)

    def _unwatched(self) -> str | None:
        """A function that runs in this loop unwatched, so that not all device time is known; None if there is none."""
        return next(
            (name for name in sorted(self._compiled_here) if not self._executables.is_watched(name)), None
        )
