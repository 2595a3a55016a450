"""One loop of the user's: its steps, where their time went, and how well the device was used."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from typing import Any

from jaxobs.derive import bottleneck
from jaxobs.derive import catalogue as core
from jaxobs.derive.compiles import Compiles
from jaxobs.derive.executables import Executables
from jaxobs.derive.roofline import Utilization, model_flops_utilization
from jaxobs.derive.series import Series
from jaxobs.derive.window import Slice, Window
from jaxobs.model.clock import NANOSECONDS, ClockAnchor, seconds
from jaxobs.model.cost import Cost
from jaxobs.model.events import LoopEnded, Recorded, StepCompleted, StepEnded
from jaxobs.model.metrics import Exemplar

HOST_TURNS = NANOSECONDS
"""Where nothing is watched, step time is the host's turn averaged over at least this long: with a sync every twenty
steps the turn's median was 7 µs and its maximum 227 ms for true 10 ms steps."""

COMPLETIONS_MISSING = 10 * NANOSECONDS
"""A watched loop without a single completion for this long has no output that could be asked; its host's turn is shown."""

STEPS_FOR_A_SPACING = 8
"""Over so many steps the polls' uncertainty at both ends, at most a tenth of a step, is about a hundredth."""

STEPS_REMEMBERED = 100_000
"""Steps whose excluded time (inner loops, checkpoints) is kept until the completions around them are known."""


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
        self.recorded: dict[str, float] = {}
        self.window = Window()
        self._pending = Slice(0)
        self._input_wait = self._compiling = self._checkpoint = 0.0
        self._pending_runs: Counter[int] = Counter()
        self._waiting_for_cost: Counter[int] = Counter()
        self._first_run: int | None = None
        self._completed: StepCompleted | None = None
        self._runs_between: tuple[int, ...] | None = None
        self._excluded: deque[tuple[int, int]] = deque(maxlen=STEPS_REMEMBERED)
        self._spacings: deque[tuple[int, float]] = deque(maxlen=60)
        self._host_turns: deque[float] = deque(maxlen=1000)
        self._host_pending: list[int] = [0, 0]
        self._last_end = 0
        for metric in (core.STEPS, core.STEPS_FAILED):
            series.add(metric, (name,), 0.0)

    def step_ended(self, event: StepEnded, compiles: Compiles, executables: Executables) -> None:
        turn = event.gap + event.end - event.start - event.nested
        waiting = compiles.overlap(event.thread, event.start, event.start + event.input_wait, forget=False)
        compiling = min(turn, compiles.overlap(event.thread, event.start - event.gap, event.end, forget=True))
        self.steps += 1
        self.failed += event.failed
        self._last_end = event.end
        self._pending.steps += 1
        self._pending.wall += seconds(turn)
        self._compiling += seconds(compiling)
        self._checkpoint += seconds(event.checkpoint)
        self._input_wait += seconds(max(0, event.input_wait - waiting))
        self._excluded.append((event.step, event.nested + event.checkpoint))
        for run in event.runs:
            self._pending_runs[run] += 1
            self._waiting_for_cost[run] += 1
            executables.ran(run)
        if event.runs and self._first_run is None:
            self._first_run = event.end
        if self._runs_between is None:
            self._runs_between = event.runs
        elif self._runs_between != event.runs:
            self._runs_between = ()
        self._series.add(core.STEPS, (self.name,), 1)
        if event.failed:
            self._series.add(core.STEPS_FAILED, (self.name,), 1)
        if event.examples is not None:
            self.examples = (self.examples or 0.0) + event.examples
            self._pending.examples += event.examples
            self._series.add(core.EXAMPLES, (self.name,), event.examples)
        if event.tokens is not None:
            self.tokens = (self.tokens or 0.0) + event.tokens
            self._pending.tokens += event.tokens
            self._series.add(core.TOKENS, (self.name,), event.tokens)
        self._host_turns.append(seconds(turn))
        self._series.observe(core.STEP_HOST_SECONDS, (self.name,), seconds(turn))
        self._series.set(core.LAST_STEP, (self.name,), self._clock.wall_time(event.end) / NANOSECONDS)
        self._host_pending[0] += turn
        self._host_pending[1] += 1
        self._observe_host_turns(event.end)

    def completed(self, event: StepCompleted, executables: Executables) -> None:
        """The device is done with a step: the spacing since the last known one, averaged over the steps between."""
        before, self._completed = self._completed, event
        runs, self._runs_between = self._runs_between, None
        if before is None or event.step <= before.step or event.time <= before.time:
            return
        steps = event.step - before.step
        excluded = sum(amount for step, amount in self._excluded if before.step <= step < event.step)
        spacing = seconds(max(0, event.time - before.time - excluded)) / steps
        self._spacings.append((steps, spacing))
        self._series.observe(core.STEP_SECONDS, (self.name,), spacing, steps)
        if runs is not None and len(runs) == 1 and steps >= STEPS_FOR_A_SPACING:
            executables.spaced(runs[0], spacing)

    def ended(self, event: LoopEnded) -> None:
        self._pending.wall += seconds(event.input_wait)
        self._input_wait += seconds(event.input_wait)
        self._completed = None

    def record(self, event: Recorded) -> None:
        self.recorded[event.name] = event.value
        self._series.set(core.RECORDED, (self.name, event.name), event.value)

    def update(self, now: int, executables: Executables) -> None:
        """Close the slice since the last time: charge its wall time, count its work."""
        piece, self._pending = self._pending, Slice(now)
        if piece.wall <= 0.0:
            self._show(executables)
            return
        piece.end = now
        busy: defaultdict[str, float] = defaultdict(float)
        known = bool(self._pending_runs)
        work = Cost()
        for run, count in self._pending_runs.items():
            made = executables.get(run)
            per_run = made.seconds_per_run if made is not None else None
            if made is None:
                piece.unseen_runs += count
            elif made.cost is None:
                piece.uncosted_runs += count
            else:
                work = work + made.cost.scaled(count)
            if made is None or per_run is None:
                known = False
            else:
                label = "unmodelled" if made.cost is None else bottleneck.label_of_busy(made.bound, per_run)
                busy["unknown" if made.cost is not None and made.bound is None else label] += per_run * count
        piece.work = work
        piece.components = bottleneck.charge(
            piece.wall, compiling=self._compiling, checkpoint=self._checkpoint, input_wait=self._input_wait,
            busy=busy, all_busy_known=known,
        )  # fmt: skip
        self._pending_runs = Counter()
        self._compiling = self._checkpoint = self._input_wait = 0.0
        self.wall += piece.wall
        for word, amount in piece.components.items():
            self.components[word] += amount
            self._series.add(core.COMPONENT_SECONDS, (self.name, word), amount)
        self.window.append(piece)
        self._show(executables)

    def document(self, executables: Executables) -> dict[str, Any]:
        recent, used = self.window.total(), self._utilization(executables)
        step_seconds, source = self._step_seconds()
        host = sum(self._host_turns) / len(self._host_turns) if self._host_turns else None
        rate = _per_second(recent)
        return {
            "steps": self.steps,
            "failed_steps": self.failed,
            "examples": self.examples,
            "examples_reason": None if self.examples is not None else "examples= was not given",
            "tokens": self.tokens,
            "tokens_reason": None if self.tokens is not None else "tokens= was not given",
            "wall_seconds": self.wall,
            "step_seconds": step_seconds,
            "step_seconds_source": source,
            "step_seconds_reason": None if step_seconds is not None else "no step has been timed yet",
            "host_seconds": host,
            "host_seconds_reason": None if host is not None else "no step has ended yet",
            "steps_per_second": rate(recent.steps),
            "examples_per_second": rate(recent.examples) if self.examples is not None else None,
            "tokens_per_second": rate(recent.tokens) if self.tokens is not None else None,
            "components": dict(self.components),
            "mfu": used.mfu,
            "mfu_reason": None if used.mfu is not None else used.reason,
            "hfu": used.hfu,
            "hfu_reason": None if used.hfu is not None else used.reason,
            "recorded": dict(self.recorded),
            "bottleneck": bottleneck.decide(recent.components, recent.steps).to_dict(),
        }

    def _show(self, executables: Executables) -> None:
        self._count_work(executables)
        recent, used = self.window.total(), self._utilization(executables)
        verdict = bottleneck.decide(recent.components, recent.steps)
        self._series.set(core.MFU, (self.name,), used.mfu)
        self._series.set(core.HFU, (self.name,), used.hfu)
        for word, share in verdict.shares.items():
            self._series.set(core.BOTTLENECK, (self.name, word), share)
        self._series.set(core.BOTTLENECK_CONFIDENCE, (self.name,), verdict.confidence)

    def verdict(self) -> bottleneck.Verdict:
        recent = self.window.total()
        return bottleneck.decide(recent.components, recent.steps)

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
            if made.bound is not None:
                for word in ("compute", "memory"):
                    bound = made.bound.seconds if made.bound.limit == word else 0.0
                    self._series.add(core.BOUND_SECONDS, (self.name, word), count * (bound or 0.0))
                if made.bound.communication_seconds is not None:
                    amount = count * made.bound.communication_seconds
                    self._series.add(core.BOUND_SECONDS, (self.name, "communication"), amount)

    def _utilization(self, executables: Executables) -> Utilization:
        recent = self.window.total()
        if executables.peaks is None:
            return Utilization(None, None, "no backend has been found yet")
        if recent.unseen_runs or recent.uncosted_runs:
            reason = "the cost of some runs is not known"
            return Utilization(None, None, reason)
        if not recent.work.matrix_flops and not self._first_run:
            return Utilization(None, None, "no function of the loop is watched: wrap it in obs.watch()")
        return model_flops_utilization(recent.work, recent.wall, executables.peaks)

    def _step_seconds(self) -> tuple[float | None, str | None]:
        if self._spacings:
            steps = sum(count for count, _ in self._spacings)
            return sum(count * spacing for count, spacing in self._spacings) / steps, "completions"
        if self._host_turns and not self._awaits_completions(self._last_end):
            return sum(self._host_turns) / len(self._host_turns), "host"
        return None, None

    def _awaits_completions(self, at: int) -> bool:
        """Whether completions are to be expected, or have come."""
        if self._completed is not None or self._spacings:
            return True
        return self._first_run is not None and at - self._first_run < COMPLETIONS_MISSING

    def _observe_host_turns(self, at: int) -> None:
        turns, steps = self._host_pending
        if turns < HOST_TURNS:
            return
        self._host_pending = [0, 0]
        if not self._awaits_completions(at):
            self._series.observe(core.STEP_SECONDS, (self.name,), seconds(turns) / steps, steps)

    def exemplify(self, exemplar: Exemplar) -> None:
        """A span was made of a step: the histogram's bucket points to it."""
        self._series.observe(core.STEP_HOST_SECONDS, (self.name,), exemplar.value, 0, exemplar)


def _per_second(recent: Slice) -> Any:
    return lambda amount: amount / recent.wall if recent.wall > 0 else None
