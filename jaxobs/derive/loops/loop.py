"""One loop of the user's: its steps, where their time went, and how well the device was used.

A few lines longer than other files: the document of a loop names each of its values and why it may be absent.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Mapping
from typing import Any, TypeGuard

from jaxobs.derive.compilation.compilations import Compiles
from jaxobs.derive.executables.executable import MEASURED, SAMPLES_KEPT, lower_bound_reason
from jaxobs.derive.executables.registry import Executables
from jaxobs.derive.loops.device_time import LoopDeviceTime
from jaxobs.derive.loops.host_lines import HostLine, HostLines
from jaxobs.derive.loops.inferred import LONG_TURN
from jaxobs.derive.loops.liveness import SignsOfLife
from jaxobs.derive.loops.run_work import Work, work_of
from jaxobs.derive.loops.steps.plain_steps import NotPlainError, PlainSteps
from jaxobs.derive.loops.steps.times import StepTimes
from jaxobs.derive.loops.utilization import LoopWork
from jaxobs.derive.loops.wall_time import bottleneck
from jaxobs.derive.loops.wall_time.components import Charged, components_of
from jaxobs.derive.loops.wall_time.host_evidence import host_shares
from jaxobs.derive.loops.wall_time.stalls import STEPS_KEPT, Stalls
from jaxobs.derive.loops.wall_time.window import WINDOW, Slice, Window
from jaxobs.derive.metrics import catalogue as core
from jaxobs.derive.metrics.series import LARGEST, Series
from jaxobs.derive.profiler_windows.document import profile_document
from jaxobs.derive.profiler_windows.loop_profile import LoopProfile
from jaxobs.derive.profiler_windows.parts import StepSpan
from jaxobs.derive.profiler_windows.traced_steps import host_is_ahead
from jaxobs.derive.profiler_windows.windows import Profiles
from jaxobs.derive.refusal import is_amount, require
from jaxobs.model.clock import NANOSECONDS, ClockAnchor, seconds
from jaxobs.model.events import LoopDeclared, LoopEnded, Recorded, StepCompleted, StepEnded
from jaxobs.model.metrics import Exemplar
from jaxobs.report.units import rough_percent
from jaxobs.roofline.bottleneck import Verdict
from jaxobs.roofline.bounds import Utilization
from jaxobs.vocabulary.wall_time import COMPONENTS, IDLE

NOT_FINITE = "the value recorded last is no finite number"

NAMES = 200
"""At most so many names of the user's own values in a loop: they become a label, and are no step's number."""

STARTING_STEPS = 2
"""A jitted function compiles at its first call, and often again at its second, whose arguments are its own results."""

MENTIONED = 0.05
"""Share of compiles in the time of rates from which on they say so: they miss step time by as much."""

NOT_ALL_TIMED = "no step has ended of late, or not all that they ran is watched and was timed"

NO_ITERATIONS = (
    "no step is a call of seconds whose executable does most of its work in a loop with a known trip count"
)

LATE = 3
"""A loop that has ended no step for the window's length, and this many times as long as its steps take, has no rates any
more: what a step of an hour does is not known before it ends."""


class Loop:
    """State of one loop, by the name the user gave it."""

    def __init__(self, name: str, series: Series, clock: ClockAnchor, signs: SignsOfLife) -> None:
        self.name = name
        self._series = series
        self._clock = clock
        self._signs = signs
        self.inferred = False
        """Whether it was found by what repeats, as nobody marked it."""
        self.steps = 0
        self.failed = 0
        self.examples: float | None = None
        self.tokens: float | None = None
        self.wall = 0.0
        self.components: dict[str, float] = dict.fromkeys(COMPONENTS, 0.0)
        self.recorded: dict[str, float | None] = {}
        self.window = Window()
        self._pending = Slice(0)
        self._host = HostLines(name, series)
        self._work = LoopWork(name, series)
        self._device_time = LoopDeviceTime()
        self._refused_amounts: set[str] = set()
        self._not_finite: dict[str, str] = {}
        self._recent, self._did = Slice(0), Work()
        self._lately = Charged({}, 0.0, 0.0, 0.0)
        self._owed: Mapping[str, float] = {}
        self._sampled_paces: deque[float] = deque(maxlen=SAMPLES_KEPT)
        self._quiet: str | None = None
        self._profile: LoopProfile | None = None
        self._why_no_profile = ""
        self._compiled_here: set[str] = set()
        self.stalls = Stalls()
        self._times = StepTimes(name, series)
        self._last_end: int | None = None

    def step_ended(
        self, event: StepEnded, compiles: Compiles, executables: Executables, profiles: Profiles
    ) -> None:
        turn = event.gap + event.end - event.start - event.nested
        parts = (event.gap, event.input_wait, event.dispatch, event.nested, event.checkpoint)
        require(event.end >= event.start and min(turn, *parts) >= 0, "a step of negative duration")
        waiting = compiles.overlap(event.thread, event.start, event.start + event.input_wait, forget=False)
        compiling = min(turn, compiles.overlap(event.thread, event.start - event.gap, event.end, forget=True))
        made = compiles.made_within(event.thread, event.start - event.gap, event.end)
        if made:
            self._compiled_here |= made
            profiles.compiled(self.name, made, event.end)
        profiles.steps_ended(self.name, StepSpan.of(event, turn, compiling))
        self.steps += 1
        self.failed += event.failed
        self._pending.steps += 1
        self._pending.wall += seconds(turn)
        self._pending.compiling += seconds(compiling)
        if self.steps <= STARTING_STEPS:
            self._pending.starting += seconds(compiling)
        self._pending.checkpoint += seconds(event.checkpoint)
        self._pending.input_wait += seconds(max(0, event.input_wait - waiting))
        own = turn - event.gap - compiling - event.checkpoint - max(0, event.input_wait - waiting)
        self._judge(event, max(0, own))
        for run in event.runs:
            self._pending.runs[run] += 1
            self._work.ran(run)
            executables.ran_in_loop(run)
        self._device_time.step_ended(event, executables)
        if self._is_taken(event.examples, "examples"):
            self.examples = min((self.examples or 0.0) + event.examples, LARGEST)
            self._pending.examples = min(self._pending.examples + event.examples, LARGEST)
        if self._is_taken(event.tokens, "tokens"):
            self.tokens = min((self.tokens or 0.0) + event.tokens, LARGEST)
            self._pending.tokens = min(self._pending.tokens + event.tokens, LARGEST)
        self._last_end = event.end
        self._times.step_ended(event, turn, executables, compiling)

    def steps_ended(
        self, steps: PlainSteps, compiles: Compiles, executables: Executables, profiles: Profiles
    ) -> None:
        """The same of many at once. Raises NotPlainError, and changes nothing, where they must be told one by one."""
        longest = seconds(max(steps.bodies))
        if not (steps.is_sound() and compiles.is_apart(steps.thread, steps.starts[0] - steps.gaps[0])):
            raise NotPlainError
        if self.stalls.is_long(longest):
            raise NotPlainError
        examples, tokens = steps.total(7), steps.total(8)
        profiles.steps_ended(self.name, steps)
        self.steps += len(steps)
        self._pending.steps += len(steps)
        self._pending.wall += seconds(sum(steps.turns))
        self._pending.input_wait += seconds(sum(steps.waits))
        self.stalls.steps(list(map(seconds, steps.bodies[-STEPS_KEPT:])))
        for run, calls in steps.runs.items():
            self._pending.runs[run] += calls
            self._work.ran(run, calls)
            executables.ran_in_loop(run, calls)
        self._device_time.steps_ended(steps, executables)
        if examples is not None:
            self.examples = min((self.examples or 0.0) + examples, LARGEST)
            self._pending.examples = min(self._pending.examples + examples, LARGEST)
        if tokens is not None:
            self.tokens = min((self.tokens or 0.0) + tokens, LARGEST)
            self._pending.tokens = min(self._pending.tokens + tokens, LARGEST)
        self._last_end = steps.ends[-1]
        self._times.steps_ended(steps, executables)

    def _judge(self, event: StepEnded, own: int) -> None:
        """Whether it was a stall. What is explained of its time may have been silent, too."""
        silent = 0
        if self.stalls.is_long(seconds(own)):
            explained = event.end - event.start - own
            longest = round((self.stalls.limit or 0.0) * NANOSECONDS)
            silent = self._signs.silent(event.start, event.end, longest) - explained
        self.stalls.step(seconds(own), seconds(silent))

    def completed(self, event: StepCompleted, executables: Executables) -> None:
        self._times.completed(event, executables)
        self._device_time.completed(event)

    def sampled(self, run: int) -> None:
        """A run was timed by polling: if it is one of this loop's, at the pace that its steps have now."""
        if run in self._pending.runs or run in self._recent.runs:
            self._pending.samples += 1

    def main_thread_seen(self, line: HostLine, spent: float, samples: int) -> None:
        """The main thread was at this line for so many seconds while a step of this loop was under way."""
        self._host.add(line, spent, samples)
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
        self._times.loop_ended()
        self._device_time.loop_ended(event.time)

    def exemplify(self, exemplar: Exemplar, step: int) -> None:
        """A span was made of a step."""
        self._times.exemplify(exemplar, step)

    def record(self, event: Recorded) -> None:
        require(event.name in self.recorded or len(self.recorded) < NAMES, "too many recorded names")
        self.recorded[event.name] = event.value if math.isfinite(event.value) else None
        self._series.set(core.RECORDED, (self.name, event.name), event.value)

    def update(self, now: int, executables: Executables, profiles: Profiles) -> None:
        """Close the slice since the last time: charge its wall time, count its work."""
        self._profile = profiles.of(self.name, now)
        self._why_no_profile = profiles.why_none(self.name)
        self._device_time.count(self.wall + self._pending.wall, now, executables)
        if self._pending.wall <= 0.0:
            self._show(now, executables)
            return
        piece, self._pending = self._pending, Slice(now)
        piece.end = now
        piece.spent = self._device_time.take()
        charged = self._charged(piece, executables, self._owed)
        components, self._owed = charged.components, charged.owed
        self.wall += piece.wall
        piece.apart = sum(components[word] for word in ("compile", "checkpoint", "input"))
        for word, amount in components.items():
            self.components[word] += amount
            self._series.add(core.COMPONENT_SECONDS, (self.name, word), amount)
        if (pace := piece.pace) is not None:
            self._sampled_paces.extend([pace] * min(piece.samples, SAMPLES_KEPT))
        self.window.append(piece)
        self._show(now, executables)

    def _charged(
        self, piece: Slice, executables: Executables, owed: Mapping[str, float] | None = None
    ) -> Charged:
        all_watched = self._unwatched(executables) is None
        ahead = host_is_ahead(self._profile, self._recent)
        host = host_shares(piece.host, piece.wall, self._recent.host)
        return components_of(
            piece, executables, self._profile, all_watched=all_watched, ahead=ahead, owed=owed, host=host
        )

    def document(self, executables: Executables) -> dict[str, Any]:
        recent, used = self._recent, self._utilization(executables)
        step_seconds, source, timed_steps = self._times.step_seconds()
        host = self._times.host_seconds()
        timed = recent.steps > 0 and self._did.device_seconds > 0 and not self._did.untimed_runs
        device = self._did.device_seconds / recent.steps if timed else None
        rate = _per_second(max(recent.under_way, self._did.device_seconds))
        no_rate = (
            None if recent.under_way > 0 else self._quiet or "no step has ended yet, but for its compiles"
        )
        again, with_compiles = recent.compiling - recent.starting, None
        if again > MENTIONED * recent.under_way:
            share = rough_percent(again / recent.under_way)
            no_rate = with_compiles = f"compiles took {share} of the time that this is over"
        no_step_seconds = "too few steps have been timed: two completions, or a second of the host's turns"
        few = (
            f"of {timed_steps} step{'s' * (timed_steps > 1)} alone"
            if timed_steps < bottleneck.ENOUGH_STEPS
            else None
        )
        lower_bound = lower_bound_reason(self._did.cost)
        if lower_bound is None and MEASURED in self._did.cost.inexact_reasons:
            lower_bound = MEASURED
        why = {word: self._why_no_amount(word) for word in ("examples", "tokens")}
        return {
            "inferred": self.inferred,
            **self._iterations(executables, step_seconds),
            "steps": self.steps,
            "failed_steps": self.failed,
            "examples": self.examples,
            "examples_reason": why["examples"],
            "tokens": self.tokens,
            "tokens_reason": why["tokens"],
            "wall_seconds": self.wall,
            "step_seconds": step_seconds,
            "step_seconds_reason": few if step_seconds is not None else no_step_seconds,
            "device_seconds_per_step": device,
            "device_seconds_per_step_reason": None if device is not None else NOT_ALL_TIMED,
            "step_seconds_source": source,
            "step_seconds_source_reason": None if source is not None else no_step_seconds,
            "host_seconds": host,
            "host_seconds_reason": None if host is not None else "no step has ended yet",
            "steps_per_second": rate(recent.steps),
            "steps_per_second_reason": no_rate,
            "examples_per_second": rate(recent.examples) if self.examples is not None else None,
            "examples_per_second_reason": why["examples"] or no_rate,
            "tokens_per_second": rate(recent.tokens) if self.tokens is not None else None,
            "tokens_per_second_reason": why["tokens"] or no_rate,
            "components": dict(self.components),
            "mfu": used.mfu,
            "mfu_reason": used.reason or lower_bound or with_compiles,
            "hfu": used.hfu,
            "hfu_reason": used.reason or lower_bound or with_compiles,
            "recorded": self.recorded
            | {f"{name}_reason": NOT_FINITE for name, value in self.recorded.items() if value is None},
            "bottleneck": self.verdict().to_dict(),
            **self._host.document(),
            **self._idle(),
            "profile": profile_document(
                self._profile, self._untraced_step(), ahead=host_is_ahead(self._profile, recent)
            ),
            "profile_reason": None if self._profile is not None else self._why_no_profile,
        }

    def _iterations(self, executables: Executables, step_seconds: float | None) -> dict[str, Any]:
        """Turns of the loop within a step of a call that is itself a training, or an epoch: none of a short step's."""
        main = (executables.get(run) for run in self._recent.runs)
        turns = next((made.iterations for made in main if made is not None and made.iterations), None)
        if not self.inferred or step_seconds is None or step_seconds < LONG_TURN:
            turns = None
        return {"iterations_per_step": turns, "iterations_per_step_reason": None if turns else NO_ITERATIONS}

    def _idle(self) -> dict[str, Any]:
        """Share of the last window in which the device had nothing to do."""
        lately, wall = self._lately, self._recent.wall
        if lately.idle_unknown is None or wall <= 0:
            reason = "not all of the device's time is known: watch the loop's functions, or wait for a profiler window"
            return {"device_idle": None, "device_idle_reason": self._quiet or reason}
        idle = lately.idle_unknown + sum(lately.components[word] for word in IDLE)
        return {"device_idle": min(1.0, idle / wall), "device_idle_reason": None}

    def _untraced_step(self) -> float | None:
        """Seconds a step of late, without compiles and checkpoints."""
        own = self._recent.wall - sum(
            self._lately.components.get(word, 0.0) for word in ("compile", "checkpoint")
        )
        return own / self._recent.steps if self._recent.steps else None

    def _show(self, now: int, executables: Executables) -> None:
        self._work.count(executables)
        self._host.update()
        self._count()
        self._recent = self.window.total()
        self._did = work_of(self._recent.runs, executables)
        self._quiet = _quiet(self._recent, now)
        if self._quiet is not None:
            self._recent, self._did = Slice(now), Work()
        # By what is known now: a window tells what the steps before it did, too.
        self._lately = self._charged(self._recent, executables)
        used, verdict = self._utilization(executables), self.verdict()
        self._series.set(core.MFU, (self.name,), used.mfu)
        self._series.set(core.HFU, (self.name,), used.hfu)
        for word in COMPONENTS:
            self._series.set(core.BOTTLENECK, (self.name, word), verdict.shares.get(word))
        self._series.set(core.BOTTLENECK_CONFIDENCE, (self.name,), verdict.confidence)

    def _count(self) -> None:
        """Bring the counters of steps up to what was folded: once a snapshot, as there may be thousands of steps."""
        for metric, amount in (
            (core.STEPS, self.steps),
            (core.STEPS_FAILED, self.failed),
            (core.EXAMPLES, self.examples),
            (core.TOKENS, self.tokens),
        ):
            if amount is not None:
                self._series.total(metric, (self.name,), float(amount))
        if self._last_end is not None:
            at = self._clock.wall_time(self._last_end) / NANOSECONDS
            self._series.set(core.LAST_STEP, (self.name,), at)

    def verdict(self) -> Verdict:
        """Of the last window."""
        if self._quiet is not None:
            return Verdict("unknown", 0.0, None, reason=self._quiet)
        recent, lately = self._recent, self._lately
        doubtful = min(lately.sampled, lately.doubtful + lately.sampled * self._change_of_pace())
        return bottleneck.decide(lately.components, recent.steps, lately.by_operation, doubtful)

    def _change_of_pace(self) -> float:
        """Share by which runs follow each other faster or slower now than while some of them were timed.

        Whether that is the device's doing or the host's is not known before new runs are timed.
        """
        pace = self.window.pace()
        if pace is None or not self._sampled_paces:
            return 0.0
        return abs(pace / statistics.median(self._sampled_paces) - 1)

    def _utilization(self, executables: Executables) -> Utilization:
        if self._quiet is not None:
            return Utilization(None, None, self._quiet)
        return self._work.utilization(
            self._recent, self._did, executables, profile=self._profile, unwatched=self._unwatched(executables),
            any_watched=self._times.watched, ends_seen=self._times.completions_seen,
        )  # fmt: skip

    def _unwatched(self, executables: Executables) -> str | None:
        """A function that runs in this loop without being watched, so that not all of the device's time is known."""
        return next((name for name in sorted(self._compiled_here) if not executables.is_watched(name)), None)

    def _is_taken(self, value: float | None, word: str) -> TypeGuard[float]:
        """Whether it counts, what the user said of a step; NaN, infinity and negative amounts are refused."""
        if value is None:
            return False
        if is_amount(value):
            return True
        self._refused_amounts.add(word)
        self._series.refuse(f"{word}= of loop `{self.name}`: no finite, positive number")
        return False

    def _why_no_amount(self, word: str) -> str | None:
        if (self.examples if word == "examples" else self.tokens) is not None:
            return None
        if word in self._refused_amounts:
            return f"{word}= raised, or gave no finite, positive number (an array on the device is not read)"
        return f"{word}= was not given"


def _per_second(elapsed: float) -> Any:
    return lambda amount: amount / elapsed if elapsed > 0 else None


def _quiet(recent: Slice, now: int) -> str | None:
    """Why the last window says nothing of now; None where it does."""
    silence = now - recent.end
    longest = LATE * recent.wall / recent.steps if recent.steps else 0.0
    if recent.end == 0 or silence <= WINDOW or seconds(silence) <= longest:
        return None
    return f"no step has ended for {seconds(silence):.0f} s"
