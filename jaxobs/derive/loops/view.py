"""What is shown of a loop: each figure, or why it is not known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jaxobs.derive.executables.executable import inexact_reason
from jaxobs.derive.loops.bottleneck import ENOUGH_STEPS, IDLE_KNOWN, OUTPACED, decide
from jaxobs.derive.loops.found import LONG_TURN
from jaxobs.derive.loops.host_lines import Row
from jaxobs.derive.loops.loop import Loop
from jaxobs.derive.loops.stretches import IN_FLIGHT, MAX_DOUBT, Kind, Stretch
from jaxobs.derive.profiler_windows.loop_profile import LoopProfile
from jaxobs.model.cost import MEASURED
from jaxobs.model.figure import Figure, figure
from jaxobs.roofline_model.bottleneck import Verdict
from jaxobs.vocabulary.units import count, rough_percent
from jaxobs.vocabulary.words import IDLE, INSIDE, ON_ONE_THREAD

MENTIONED = 0.05
"""Share of compiles in the time of rates above which the rates' reason says so: they are wrong by as much."""

NOT_ALL_KNOWN = (
    "not all of the device's time is known: watch the loop's functions, or wait for a profiler window"
)
NOT_ALL_TIMED = "no step has ended of late, or not all that they ran is watched and was timed"

NO_END_SEEN = "no run's end has been seen: the host may be ahead of the device"

UNSEEN = (
    "no end of a run is seen, as where all outputs are donated, or large and replaced (let the step return its loss); "
    f"the host's turns are taken after {round(IN_FLIGHT / MAX_DOUBT)} steps without a break"
)

NONE_OF_LATE = "the steps that rates are over had none"

ALL_INSIDE = "its steps' time is that of the loops and phases inside them, which have it as their own"

WHY_NO_RATE = {
    Kind.DOUBTFUL: (
        "the host left the loop while the device may have worked on, and no end of a run was seen there"
    ),
    Kind.UNSEEN: UNSEEN,
    Kind.UNWATCHED: "nothing in it is watched, and a rate then needs a second of the loop's own time",
    Kind.SEEN: "there is a compile in each stretch of steps whose end was seen: their own time is not known",
}
"""By the kind of the newest stretches; the first of these that is among them tells."""

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
    recent_seconds: float
    """Of these, those that the bottleneck is told by; all of them, where the loop is young."""
    step_seconds: Figure[float]
    device_seconds_per_step: Figure[float]
    step_seconds_source: Figure[str]
    """Whether step times come from `completions` on the device or from the `host`."""
    host_seconds: Figure[float]
    steps_per_second: Figure[float]
    examples_per_second: Figure[float]
    tokens_per_second: Figure[float]
    components: Mapping[str, float]
    mfu: Figure[float]
    hfu: Figure[float]
    recorded: Mapping[str, Figure[float]]
    """The user's own values, by name."""
    bottleneck: Verdict
    host_lines: Figure[Sequence[Row]]
    host_calls: Figure[Sequence[Row]]
    """The sampled time by call path."""
    host_samples: int
    device_idle: Figure[float]
    left_seconds: Figure[float]
    """Seconds since its iteration ended."""
    idle_in_waits: bool
    """Whether the device is known to be idle while the loop waits for its input: it was done at the end of each turn."""
    profile: Figure[LoopProfile]


def loop_view(loop: Loop) -> LoopView:
    """What is shown of the loop at its last `update`."""
    rated = loop.rated
    known = rated.steps > 0 and rated.wall > 0
    shared = loop.inferred and rated.beside.keys() & rated.runs.keys()
    note = loop.late or (ON_ONE_THREAD if shared else _note(rated)) if known else _why_no_rate(loop)
    rate = Figure(rated.steps / rated.wall if known else None, note)
    source = "completions" if rated.kind in {Kind.SEEN, Kind.TURNS} else "host"
    few = f"of {count(rated.steps, 'step')} alone" if known and rated.steps < ENOUGH_STEPS else None
    mfu, hfu = _utilization(loop, note)
    turns = loop.host_times.value()
    return LoopView(
        inferred=loop.inferred,
        iterations_per_step=_iterations(loop),
        steps=loop.steps,
        failed_steps=loop.failed,
        examples=loop.amount("examples"),
        tokens=loop.amount("tokens"),
        wall_seconds=loop.wall,
        recent_seconds=loop.whole.wall,
        step_seconds=Figure(rated.wall / rated.steps if known else None, few or note),
        device_seconds_per_step=_device_seconds(loop),
        step_seconds_source=figure(source if known else None, note),
        host_seconds=figure(turns.sum / turns.count if turns.count else None, "no step has ended yet"),
        steps_per_second=rate,
        examples_per_second=_rate(loop.amount("examples"), rated.examples, rate, rated),
        tokens_per_second=_rate(loop.amount("tokens"), rated.tokens, rate, rated),
        components=dict(loop.components),
        mfu=mfu,
        hfu=hfu,
        recorded={name: value.figure() for name, value in loop.recorded.items()},
        bottleneck=decide(loop.charged, loop.whole.steps),
        host_lines=loop.host.rows(loop.whole.sampled),
        host_calls=loop.host.calls(),
        host_samples=loop.host.samples,
        device_idle=_idle(loop),
        left_seconds=figure(loop.left_seconds, "its iteration is under way, or nobody marked it"),
        idle_in_waits=loop.stretches.idle_at_ends >= IDLE_KNOWN
        and not (loop.unwatched() or loop.whole.beside),
        profile=loop.profile,
    )


def _note(rated: Stretch) -> str | None:
    """What to know of rates: that they are by the host's turns alone, or that compiles took much of their time."""
    if rated.nested > rated.wall:
        return INSIDE
    if rated.kind is Kind.UNSEEN:
        return UNSEEN
    if rated.left_out > 0:
        share = rough_percent(rated.left_out / (rated.wall + rated.left_out))
        return f"without compiles, which took {share} of the time, in all of its steps"
    if rated.compiling <= MENTIONED * rated.wall:
        return None
    share = rough_percent(rated.compiling / rated.wall)
    return f"compiles took {share} of the time that this is over"


def _why_no_rate(loop: Loop) -> str:
    """Why there is no rate."""
    if loop.whole.nested > loop.whole.wall:
        return ALL_INSIDE
    why = next((why for kind, why in WHY_NO_RATE.items() if kind in loop.stretches.kinds), None)
    none_yet = f"no step has ended {'but by an exception' if loop.failed else 'yet'}"
    return loop.quiet or (why or NO_END_SEEN if loop.steps > loop.failed else none_yet)


def _iterations(loop: Loop) -> Figure[int]:
    """Iterations inside one step, where a step is a long call that holds a whole training or an epoch."""
    rated = loop.rated
    step_seconds = rated.wall / rated.steps if rated.steps else None
    is_long = loop.inferred and step_seconds is not None and step_seconds >= LONG_TURN
    return figure(loop.iterations() if is_long else None, NO_ITERATIONS)


def _device_seconds(loop: Loop) -> Figure[float]:
    steps, did = loop.rated.steps, loop.did
    all_timed = did.device_seconds > 0 and not did.untimed_runs and loop.unwatched() is None
    if loop.charged.bounded.get(OUTPACED, 0.0) > MAX_DOUBT * loop.whole.wall:
        return Figure(None, OUTPACED)
    return figure(min(did.device_seconds, loop.rated.wall) / steps if all_timed else None, NOT_ALL_TIMED)


def _rate(total: Figure[float], amount: float, rate: Figure[float], rated: Stretch) -> Figure[float]:
    if rate.value is None or not amount > 0:
        return Figure(None, total.reason or rate.reason or NONE_OF_LATE)
    return Figure(amount / rated.wall, rate.reason)


def _utilization(loop: Loop, note: str | None) -> tuple[Figure[float], Figure[float]]:
    """MFU and HFU, each with why it is unknown, or what to know of it."""
    if not loop.rated.steps:
        reason = loop.quiet or loop.work.why_unseen() or note
        return Figure(None, reason), Figure(None, reason)
    cost, unwatched = loop.did.cost, loop.unwatched()
    used = loop.work.utilization(loop.rated, loop.did, unwatched, watched=loop.stretches.watched)
    more = loop.work.why_more(loop.rated, loop.profile.value, unwatched) if used.mfu is not None else None
    measured = MEASURED if MEASURED in cost.inexact_reasons else None
    counted = more or used.reason or inexact_reason(cost) or measured or note
    given = loop.work.model_flops is not None  # what is counted then says nothing of the MFU
    return Figure(used.mfu, used.reason or note if given else counted), Figure(used.hfu, counted)


def _idle(loop: Loop) -> Figure[float]:
    """Share of the last window in which the device was idle."""
    new, wall = loop.charged, loop.whole.wall
    if new.idle is None or wall <= 0:
        why = max(new.bounded, key=lambda each: new.bounded[each], default=NOT_ALL_KNOWN)
        return Figure(None, loop.quiet or why)
    idle = new.idle + sum(new.components[word] for word in IDLE)
    return Figure(min(1.0, idle / wall))
