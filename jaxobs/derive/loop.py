"""One loop of the user's: its steps, where their time went, and how well the device was used.

A few lines longer than other files: the document of a loop names each of its values and why it may be absent.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import Any

from jaxobs.derive import bottleneck
from jaxobs.derive import catalogue as core
from jaxobs.derive.compiles import Compiles
from jaxobs.derive.executable import Executable
from jaxobs.derive.executables import Executables
from jaxobs.derive.refusal import is_amount, require
from jaxobs.derive.roofline import Utilization, model_flops_utilization
from jaxobs.derive.series import LARGEST, Series
from jaxobs.derive.step_times import StepTimes
from jaxobs.derive.window import WINDOW, Slice, Window
from jaxobs.derive.work import Work, work_of
from jaxobs.model.clock import NANOSECONDS, ClockAnchor, seconds
from jaxobs.model.events import LoopDeclared, LoopEnded, Recorded, StepCompleted, StepEnded
from jaxobs.model.metrics import Exemplar, Metric

NOT_FINITE = "the value recorded last is no finite number"

NAMES = 200
"""At most so many names of the user's own values in a loop: they become a label, and are no step's number."""

LATE = 3
"""A loop that has ended no step for the window's length, and this many times as long as its steps take, has no rates any
more: what a step of an hour does is not known before it ends."""


class Loop:
    """State of one loop, by the name the user gave it."""

    def __init__(self, name: str, series: Series, clock: ClockAnchor) -> None:
        self.name = name
        self._series = series
        self._clock = clock
        self.steps = 0
        self.failed = 0
        self.examples: float | None = None
        self.tokens: float | None = None
        self.wall = 0.0
        self.components: dict[str, float] = dict.fromkeys(core.COMPONENTS, 0.0)
        self.recorded: dict[str, float | None] = {}
        self._model_flops: float | None = None
        self.window = Window()
        self._pending = Slice(0)
        self._input_wait = self._compiling = self._checkpoint = 0.0
        self._waiting_for_cost: Counter[int] = Counter()
        self._waiting_for_bound: Counter[int] = Counter()
        self._refused_amounts: set[str] = set()
        self._not_finite: dict[str, str] = {}
        self._recent, self._did = Slice(0), Work()
        self._quiet: str | None = None
        self._compiled_here: set[str] = set()
        self._times = StepTimes(name, series)
        for metric in (core.STEPS, core.STEPS_FAILED):
            series.add(metric, (name,), 0.0)

    def step_ended(self, event: StepEnded, compiles: Compiles, executables: Executables) -> None:
        turn = event.gap + event.end - event.start - event.nested
        parts = (event.gap, event.input_wait, event.dispatch, event.nested, event.checkpoint)
        require(event.end >= event.start and min(turn, *parts) >= 0, "a step of negative duration")
        waiting = compiles.overlap(event.thread, event.start, event.start + event.input_wait, forget=False)
        compiling = min(turn, compiles.overlap(event.thread, event.start - event.gap, event.end, forget=True))
        self._compiled_here |= compiles.made_within(event.thread, event.start - event.gap, event.end)
        self.steps += 1
        self.failed += event.failed
        self._pending.steps += 1
        self._pending.wall += seconds(turn)
        self._compiling += seconds(compiling)
        self._checkpoint += seconds(event.checkpoint)
        self._input_wait += seconds(max(0, event.input_wait - waiting))
        for run in event.runs:
            self._pending.runs[run] += 1
            self._waiting_for_cost[run] += 1
            self._waiting_for_bound[run] += 1
            executables.ran(run)
        self._series.add(core.STEPS, (self.name,), 1)
        if event.failed:
            self._series.add(core.STEPS_FAILED, (self.name,), 1)
        examples = self._amount("examples", event.examples, core.EXAMPLES)
        if examples is not None:
            self.examples = min((self.examples or 0.0) + examples, LARGEST)
            self._pending.examples = min(self._pending.examples + examples, LARGEST)
        tokens = self._amount("tokens", event.tokens, core.TOKENS)
        if tokens is not None:
            self.tokens = min((self.tokens or 0.0) + tokens, LARGEST)
            self._pending.tokens = min(self._pending.tokens + tokens, LARGEST)
        self._series.set(core.LAST_STEP, (self.name,), self._clock.wall_time(event.end) / NANOSECONDS)
        self._times.step_ended(event, turn, executables)

    def completed(self, event: StepCompleted, executables: Executables) -> None:
        self._times.completed(event, executables)

    def declared(self, event: LoopDeclared) -> None:
        require(
            is_amount(event.model_flops) and event.model_flops > 0, "model FLOPs that are no positive number"
        )
        self._model_flops = event.model_flops

    def ended(self, event: LoopEnded) -> None:
        require(event.input_wait >= 0, "a wait of negative duration")
        self._pending.wall += seconds(event.input_wait)
        self._input_wait += seconds(event.input_wait)
        self._times.loop_ended()

    def exemplify(self, exemplar: Exemplar, step: int) -> None:
        """A span was made of a step."""
        self._times.exemplify(exemplar, step)

    def record(self, event: Recorded) -> None:
        require(event.name in self.recorded or len(self.recorded) < NAMES, "too many recorded names")
        self.recorded[event.name] = event.value if math.isfinite(event.value) else None
        self._series.set(core.RECORDED, (self.name, event.name), event.value)

    def update(self, now: int, executables: Executables) -> None:
        """Close the slice since the last time: charge its wall time, count its work."""
        if self._pending.wall <= 0.0:
            self._show(now, executables)
            return
        piece, self._pending = self._pending, Slice(now)
        piece.end = now
        busy: defaultdict[str, float] = defaultdict(float)
        known = bool(piece.runs) and self._unwatched(executables) is None
        for run, count in piece.runs.items():
            made = executables.get(run)
            per_run = made.seconds_per_run if made is not None else None
            if made is None or per_run is None:
                known = False
            else:
                busy[_busy_label(made, per_run)] += per_run * count
        piece.components = bottleneck.charge(
            piece.wall, compiling=self._compiling, checkpoint=self._checkpoint, input_wait=self._input_wait,
            busy=busy, all_busy_known=known,
        )  # fmt: skip
        self._compiling = self._checkpoint = self._input_wait = 0.0
        self.wall += piece.wall
        for word, amount in piece.components.items():
            self.components[word] += amount
            self._series.add(core.COMPONENT_SECONDS, (self.name, word), amount)
        self.window.append(piece)
        self._show(now, executables)

    def document(self, executables: Executables) -> dict[str, Any]:
        recent, used = self._recent, self._utilization(executables)
        step_seconds, source = self._times.step_seconds()
        host = self._times.host_seconds()
        rate = _per_second(max(recent.wall, self._did.device_seconds))
        no_rate = None if recent.wall > 0 else self._quiet or "no step has ended yet"
        no_step_seconds = "too few steps have been timed: two completions, or a second of the host's turns"
        lower_bound = (
            None if self._did.cost.exact else "a lower bound: " + "; ".join(self._did.cost.inexact_reasons)
        )
        why = {word: self._why_no_amount(word) for word in ("examples", "tokens")}
        return {
            "steps": self.steps,
            "failed_steps": self.failed,
            "examples": self.examples,
            "examples_reason": why["examples"],
            "tokens": self.tokens,
            "tokens_reason": why["tokens"],
            "wall_seconds": self.wall,
            "step_seconds": step_seconds,
            "step_seconds_reason": None if step_seconds is not None else no_step_seconds,
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
            "mfu_reason": used.reason or lower_bound,
            "hfu": used.hfu,
            "hfu_reason": used.reason or lower_bound,
            "recorded": self.recorded
            | {f"{name}_reason": NOT_FINITE for name, value in self.recorded.items() if value is None},
            "bottleneck": self.verdict().to_dict(),
        }

    def _show(self, now: int, executables: Executables) -> None:
        self._count_work(executables)
        self._count_bounds(executables)
        self._recent = self.window.total()
        self._did = work_of(self._recent.runs, executables)
        self._quiet = _quiet(self._recent, now)
        if self._quiet is not None:
            self._recent, self._did = Slice(now), Work()
        used, verdict = self._utilization(executables), self.verdict()
        self._series.set(core.MFU, (self.name,), used.mfu)
        self._series.set(core.HFU, (self.name,), used.hfu)
        for word in core.COMPONENTS:
            self._series.set(core.BOTTLENECK, (self.name, word), verdict.shares.get(word))
        self._series.set(core.BOTTLENECK_CONFIDENCE, (self.name,), verdict.confidence)

    def verdict(self) -> bottleneck.Verdict:
        """Of the last window."""
        if self._quiet is not None:
            return bottleneck.Verdict("unknown", 0.0, None, reason=self._quiet)
        return bottleneck.decide(self._recent.components, self._recent.steps)

    def _count_work(self, executables: Executables) -> None:
        """Runs whose cost is known by now go into the counters; a module may be decoded after its first runs."""
        for run, count in list(self._waiting_for_cost.items()):
            made = executables.get(run)
            if made is None or made.cost is None:
                continue
            del self._waiting_for_cost[run]
            times = count * made.devices
            for dtype, flops in made.cost.matrix_flops_by_type.items():
                again = made.cost.rematerialized_flops_by_type.get(dtype, 0.0)
                self._series.add(core.FLOPS, (self.name, dtype, "model"), times * (flops - again))
                self._series.add(core.FLOPS, (self.name, dtype, "rematerialized"), times * again)
            self._series.add(core.BYTES, (self.name,), times * made.cost.bytes)

    def _count_bounds(self, executables: Executables) -> None:
        """The same for bound times, which wait for the device's peaks too. Without peaks there are none, not 0 s."""
        for run, count in list(self._waiting_for_bound.items()):
            made = executables.get(run)
            if made is None or made.bound is None:
                continue
            del self._waiting_for_bound[run]
            bound = made.bound
            if bound.seconds is not None:
                for word in ("compute", "memory"):
                    amount = count * bound.seconds if bound.limit == word else 0.0
                    self._series.add(core.BOUND_SECONDS, (self.name, word), amount)
            if bound.communication_seconds is not None:
                amount = count * bound.communication_seconds
                self._series.add(core.BOUND_SECONDS, (self.name, "communication"), amount)

    def _utilization(self, executables: Executables) -> Utilization:
        reason, peaks = self._why_no_utilization(executables), executables.peaks
        if reason is not None or peaks is None:
            return Utilization(None, None, reason or "no backend has been found yet")
        recent, did = self._recent, self._did
        elapsed = max(recent.wall, did.device_seconds)
        own = (
            None
            if self._model_flops is None
            else self._model_flops * recent.steps / executables.local_devices
        )
        used = model_flops_utilization(did.cost, elapsed, peaks, own)
        if used.mfu is not None and did.untimed_runs and not self._times.completions_seen:
            return Utilization(None, None, "no run's end has been seen: the host may be ahead of the device")
        return used

    def _why_no_utilization(self, executables: Executables) -> str | None:
        if self._quiet is not None:
            return self._quiet
        unwatched = self._unwatched(executables)
        if unwatched is not None:
            return f"{unwatched} was compiled in the loop, so it runs there, and is not watched: wrap it in obs.watch()"
        if self._did.uncosted_runs:
            return "the cost of some runs is not known"
        if not self._did.cost.matrix_flops and not self._times.watched:
            return "no function of the loop is watched: wrap it in obs.watch()"
        return None

    def _unwatched(self, executables: Executables) -> str | None:
        """A function that runs in this loop without being watched, so that not all of the device's time is known."""
        return next((name for name in sorted(self._compiled_here) if not executables.is_watched(name)), None)

    def _amount(self, word: str, value: float | None, metric: Metric) -> float | None:
        """What the user said of a step; NaN, infinity and negative amounts are refused."""
        if value is None:
            return None
        if not is_amount(value):
            self._refused_amounts.add(word)
            self._series.refused += 1
            return None
        self._series.add(metric, (self.name,), value)
        return value

    def _why_no_amount(self, word: str) -> str | None:
        if (self.examples if word == "examples" else self.tokens) is not None:
            return None
        if word in self._refused_amounts:
            return f"{word}= gave no finite, positive number"
        return f"{word}= was not given"


def _busy_label(made: Executable, per_run: float) -> str:
    if not made.is_analysed or (made.cost is not None and made.bound is None):
        return "unknown"  # not yet, or no peaks to hold it against
    return bottleneck.label_of_busy(made.bound, per_run, complete=made.is_modelled)


def _per_second(elapsed: float) -> Any:
    return lambda amount: amount / elapsed if elapsed > 0 else None


def _quiet(recent: Slice, now: int) -> str | None:
    """Why the last window says nothing of now; None where it does."""
    silence = now - recent.end
    longest = LATE * recent.wall / recent.steps if recent.steps else 0.0
    if recent.end == 0 or silence <= WINDOW or seconds(silence) <= longest:
        return None
    return f"no step has ended for {seconds(silence):.0f} s"
