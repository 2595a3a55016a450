"""What is shown of a loop: each figure, or why it is not known; and the series made from these figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from jaxobs.derive.executables.executable import MEASURED, lower_bound_reason
from jaxobs.derive.loops.found.candidate import LONG_TURN
from jaxobs.derive.loops.host_lines import HostLineView
from jaxobs.derive.loops.loop import Loop
from jaxobs.derive.loops.utilization import NO_END_SEEN
from jaxobs.derive.loops.wall_time.bottleneck import ENOUGH_STEPS
from jaxobs.derive.loops.wall_time.traced_steps import host_is_ahead
from jaxobs.derive.loops.wall_time.window import Slice
from jaxobs.derive.metrics.catalogue import loop_metrics
from jaxobs.derive.metrics.series import Series
from jaxobs.derive.profiler_windows.view import ProfileView, profile_view
from jaxobs.model.figure import REASON_WHERE_ABSENT, Figure, figure
from jaxobs.roofline_model.bottleneck import Verdict
from jaxobs.vocabulary.units import rough_percent
from jaxobs.vocabulary.words import COMPONENTS, IDLE

NOT_FINITE = "the value recorded last is no finite number"

MENTIONED = 0.05
"""Share of compiles in the time of rates above which the rates' reason says so: they are wrong by as much."""

NOT_ALL_TIMED = "no step has ended of late, or not all that they ran is watched and was timed"

NOT_TIMED = "not known yet: it takes two steps seen to end on the device, or a second of the host's turns"

NO_ITERATIONS = (
    "no step is a call of seconds whose executable does most of its work in a loop with a known trip count"
)


@dataclass(frozen=True, slots=True)
class LoopView:
    """The figures of one loop: rates, utilisation and bottleneck of the last window (`WINDOW`), totals of all steps."""

    inferred: bool
    iterations_per_step: Figure[int]
    steps: int
    failed_steps: int
    examples: Figure[float]
    tokens: Figure[float]
    wall_seconds: float
    step_seconds: Figure[float]
    device_seconds_per_step: Figure[float]
    step_seconds_source: Figure[str]
    """Whether step times come from `completions` on the device or from the `host`."""
    host_seconds: Figure[float]
    steps_per_second: Figure[float]
    examples_per_second: Figure[float]
    tokens_per_second: Figure[float]
    components: Figure[Mapping[str, float]] = field(metadata=REASON_WHERE_ABSENT)
    mfu: Figure[float]
    hfu: Figure[float]
    recorded: Mapping[str, Figure[float]]
    """The user's own values, by name."""
    bottleneck: Verdict
    host_lines: Figure[Sequence[HostLineView]]
    host_samples: int
    device_idle: Figure[float]
    profile: Figure[ProfileView]


def loop_view(loop: Loop) -> LoopView:
    """What is shown of the loop at its last `update`."""
    settled, elapsed = loop.settled, loop.elapsed()
    no_rate = _why_no_rate(loop)
    step_seconds, source = _step_time(loop)
    mfu, hfu = _utilization(loop)
    return LoopView(
        inferred=loop.inferred,
        iterations_per_step=_iterations(loop),
        steps=loop.steps,
        failed_steps=loop.failed,
        examples=loop.amounts.figure("examples"),
        tokens=loop.amounts.figure("tokens"),
        wall_seconds=loop.wall,
        step_seconds=step_seconds,
        device_seconds_per_step=_device_seconds(loop),
        step_seconds_source=source,
        host_seconds=figure(loop.times.host_seconds(), "no step has ended yet"),
        steps_per_second=Figure(settled.steps / elapsed if elapsed > 0 else None, no_rate),
        examples_per_second=_rate(loop.amounts.figure("examples"), settled.examples, elapsed, no_rate),
        tokens_per_second=_rate(loop.amounts.figure("tokens"), settled.tokens, elapsed, no_rate),
        components=Figure(dict(loop.components)),
        mfu=mfu,
        hfu=hfu,
        recorded={name: figure(value, NOT_FINITE) for name, value in loop.recorded.items()},
        bottleneck=loop.verdict(),
        host_lines=loop.host.rows(),
        host_samples=loop.host.samples,
        device_idle=_idle(loop),
        profile=_profile(loop),
    )


def _iterations(loop: Loop) -> Figure[int]:
    """Iterations inside one step, where a step is a long call that holds a whole training or an epoch."""
    step_seconds, _, _ = loop.times.step_seconds()
    turns = next((executable.iterations for executable in loop.ran() if executable.iterations), None)
    if not loop.inferred or step_seconds is None or step_seconds < LONG_TURN:
        turns = None
    return figure(turns, NO_ITERATIONS)


def _step_time(loop: Loop) -> tuple[Figure[float], Figure[str]]:
    """Seconds of a step, and their source."""
    step_seconds, source, timed = loop.times.step_seconds()
    few = f"of {timed} step{'s' * (timed > 1)} alone" if timed < ENOUGH_STEPS else None
    return Figure(step_seconds, few if step_seconds is not None else NOT_TIMED), figure(source, NOT_TIMED)


def _device_seconds(loop: Loop) -> Figure[float]:
    steps, did = loop.settled.steps, loop.did
    all_timed = steps > 0 and did.device_seconds > 0 and not did.untimed_runs
    return figure(did.device_seconds / steps if all_timed else None, NOT_ALL_TIMED)


def _why_no_rate(loop: Loop) -> str | None:
    """Why there is no rate; or, beside a rate, that its seconds have compiles in them."""
    no_rate = _with_compiles(loop.settled)
    if no_rate is None and loop.settled.wall <= 0 and not loop.in_doubt:
        return loop.quiet or "no step has ended yet, but for its compiles"
    if (loop.settled.wall > 0 or loop.in_doubt) and not loop.elapsed():
        return NO_END_SEEN
    return no_rate


def _rate(total: Figure[float], amount: float, elapsed: float, no_rate: str | None) -> Figure[float]:
    known = elapsed > 0 and total.value is not None
    return Figure(amount / elapsed if known else None, total.reason or no_rate)


def _with_compiles(settled: Slice) -> str | None:
    """The note that compiles took much of the time of rates and utilisation; None where they did not."""
    if settled.compiling <= MENTIONED * settled.wall:
        return None
    share = rough_percent(settled.compiling / settled.wall)
    return f"compiles took {share} of the time that this is over"


def _utilization(loop: Loop) -> tuple[Figure[float], Figure[float]]:
    """MFU and HFU, each with why it is unknown, or what to know of it."""
    used, cost = loop.utilization(), loop.did.cost
    lower_bound = lower_bound_reason(cost)
    if lower_bound is None and MEASURED in cost.inexact_reasons:
        lower_bound = MEASURED
    reason = used.reason or lower_bound or _with_compiles(loop.settled)
    return Figure(used.mfu, reason), Figure(used.hfu, reason)


def _idle(loop: Loop) -> Figure[float]:
    """Share of the last window in which the device was idle."""
    charged, wall = loop.charged, loop.recent.wall
    if charged.idle_unknown is None or wall <= 0:
        reason = (
            "not all of the device's time is known: watch the loop's functions, or wait for a profiler window"
        )
        uneven = next((each.function for each in loop.ran() if each.hidden_seconds), None)
        if uneven is not None:
            reason = f"the runs of {uneven} take too different times for some of them to tell of all"
        return Figure(None, loop.quiet or reason)
    idle = charged.idle_unknown + sum(charged.components[word] for word in IDLE)
    return Figure(min(1.0, idle / wall))


def _profile(loop: Loop) -> Figure[ProfileView]:
    """The loop's profile, beside the recent seconds of an untraced step without compiles and checkpoints."""
    if loop.profile is None:
        return Figure(None, loop.why_no_profile)
    apart = sum(loop.charged.components.get(word, 0.0) for word in ("compile", "checkpoint"))
    untraced = (loop.recent.wall - apart) / loop.recent.steps if loop.recent.steps else None
    ahead = host_is_ahead(loop.profile, loop.recent)
    return Figure(profile_view(loop.profile, untraced, host_is_ahead=ahead))


def show_loop(name: str, view: LoopView, last_step: float | None, series: Series) -> None:
    """Set the counters of steps and the gauges of one loop from its view.

    `last_step`: when the loop's last step ended, in Unix seconds; None where none has.
    """
    for metric, amount in (
        (loop_metrics.STEPS, view.steps),
        (loop_metrics.STEPS_FAILED, view.failed_steps),
        (loop_metrics.EXAMPLES, view.examples.value),
        (loop_metrics.TOKENS, view.tokens.value),
    ):
        if amount is not None:
            series.total(metric, (name,), float(amount))
    if last_step is not None:
        series.set(loop_metrics.LAST_STEP, (name,), last_step)
    series.set(loop_metrics.MFU, (name,), view.mfu.value)
    series.set(loop_metrics.HFU, (name,), view.hfu.value)
    for word in COMPONENTS:
        series.set(loop_metrics.BOTTLENECK, (name, word), view.bottleneck.shares.get(word))
    series.set(loop_metrics.BOTTLENECK_CONFIDENCE, (name,), view.bottleneck.confidence)


def show_bottlenecks(views: Mapping[str, LoopView], series: Series) -> None:
    """Set the series of each loop's bottleneck, and remove those of earlier bottlenecks."""
    verdicts = {name: view.bottleneck for name, view in views.items()}
    series.replace(
        loop_metrics.BOTTLENECK_INFO,
        (((name, verdict.label, verdict.runner_up or ""), 1.0) for name, verdict in verdicts.items()),
    )
