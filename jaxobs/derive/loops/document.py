"""A loop as the snapshot shows it: each value, or why it is not known."""

from __future__ import annotations

from typing import Any

from jaxobs.derive.executables.executable import MEASURED, lower_bound_reason
from jaxobs.derive.executables.registry import Executables
from jaxobs.derive.loops.candidate import LONG_TURN
from jaxobs.derive.loops.loop import Loop
from jaxobs.derive.loops.wall_time import bottleneck
from jaxobs.derive.loops.wall_time.traced_steps import host_is_ahead
from jaxobs.derive.loops.wall_time.window import Slice
from jaxobs.derive.profiler_windows.document import profile_document
from jaxobs.report.units import rough_percent
from jaxobs.vocabulary.wall_time import IDLE

NOT_FINITE = "the value recorded last is no finite number"

MENTIONED = 0.05
"""Share of compiles in the time of rates from which on they say so: they miss step time by as much."""

NOT_ALL_TIMED = "no step has ended of late, or not all that they ran is watched and was timed"

NOT_TIMED = "too few steps have been timed: two completions, or a second of the host's turns"

NO_ITERATIONS = (
    "no step is a call of seconds whose executable does most of its work in a loop with a known trip count"
)


def loop_document(loop: Loop, executables: Executables) -> dict[str, Any]:
    """As of the loop's last `update`."""
    recorded_reasons = {
        f"{name}_reason": NOT_FINITE for name, value in loop.recorded.items() if value is None
    }
    return {
        "inferred": loop.inferred,
        **_iterations(loop, executables),
        "steps": loop.steps,
        "failed_steps": loop.failed,
        **_amounts(loop),
        "wall_seconds": loop.wall,
        **_step_time(loop),
        **_rates(loop),
        "components": dict(loop.components),
        **_utilization(loop, executables),
        "recorded": loop.recorded | recorded_reasons,
        "bottleneck": loop.verdict().to_dict(),
        **loop.host.document(),
        **_idle(loop),
        "profile": profile_document(
            loop.profile, _untraced_step(loop), ahead=host_is_ahead(loop.profile, loop.recent)
        ),
        "profile_reason": None if loop.profile is not None else loop.why_no_profile,
    }


def _iterations(loop: Loop, executables: Executables) -> dict[str, Any]:
    """Turns of the loop within a step of a call that is itself a training, or an epoch: none of a short step's."""
    step_seconds, _, _ = loop.times.step_seconds()
    main = (executables.get(run) for run in loop.recent.runs)
    turns = next((made.iterations for made in main if made is not None and made.iterations), None)
    if not loop.inferred or step_seconds is None or step_seconds < LONG_TURN:
        turns = None
    return {"iterations_per_step": turns, "iterations_per_step_reason": None if turns else NO_ITERATIONS}


def _amounts(loop: Loop) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for word, total in loop.amounts.total.items():
        document |= {word: total, f"{word}_reason": loop.amounts.why_none(word)}
    return document


def _step_time(loop: Loop) -> dict[str, Any]:
    step_seconds, source, timed = loop.times.step_seconds()
    few = f"of {timed} step{'s' * (timed > 1)} alone" if timed < bottleneck.ENOUGH_STEPS else None
    did, host = loop.did, loop.times.host_seconds()
    all_timed = loop.settled.steps > 0 and did.device_seconds > 0 and not did.untimed_runs
    return {
        "step_seconds": step_seconds,
        "step_seconds_reason": few if step_seconds is not None else NOT_TIMED,
        "device_seconds_per_step": did.device_seconds / loop.settled.steps if all_timed else None,
        "device_seconds_per_step_reason": None if all_timed else NOT_ALL_TIMED,
        "step_seconds_source": source,
        "step_seconds_source_reason": None if source is not None else NOT_TIMED,
        "host_seconds": host,
        "host_seconds_reason": None if host is not None else "no step has ended yet",
    }


def _rates(loop: Loop) -> dict[str, Any]:
    settled, elapsed = loop.settled, loop.elapsed()
    no_rate = _with_compiles(settled)
    if no_rate is None and settled.wall <= 0:
        no_rate = loop.quiet or "no step has ended yet, but for its compiles"
    document: dict[str, Any] = {
        "steps_per_second": settled.steps / elapsed if elapsed > 0 else None,
        "steps_per_second_reason": no_rate,
    }
    for word, amount in (("examples", settled.examples), ("tokens", settled.tokens)):
        absent = loop.amounts.why_none(word)
        known = elapsed > 0 and loop.amounts.total[word] is not None
        document[f"{word}_per_second"] = amount / elapsed if known else None
        document[f"{word}_per_second_reason"] = absent or no_rate
    return document


def _with_compiles(settled: Slice) -> str | None:
    """That compiles took much of the time which rates and utilisation are over; None where they did not."""
    if settled.compiling <= MENTIONED * settled.wall:
        return None
    share = rough_percent(settled.compiling / settled.wall)
    return f"compiles took {share} of the time that this is over"


def _utilization(loop: Loop, executables: Executables) -> dict[str, Any]:
    used, cost = loop.utilization(executables), loop.did.cost
    lower_bound = lower_bound_reason(cost)
    if lower_bound is None and MEASURED in cost.inexact_reasons:
        lower_bound = MEASURED
    reason = used.reason or lower_bound or _with_compiles(loop.settled)
    return {"mfu": used.mfu, "mfu_reason": reason, "hfu": used.hfu, "hfu_reason": reason}


def _idle(loop: Loop) -> dict[str, Any]:
    """Share of the last window in which the device had nothing to do."""
    charged, wall = loop.charged, loop.recent.wall
    if charged.idle_unknown is None or wall <= 0:
        reason = (
            "not all of the device's time is known: watch the loop's functions, or wait for a profiler window"
        )
        return {"device_idle": None, "device_idle_reason": loop.quiet or reason}
    idle = charged.idle_unknown + sum(charged.components[word] for word in IDLE)
    return {"device_idle": min(1.0, idle / wall), "device_idle_reason": None}


def _untraced_step(loop: Loop) -> float | None:
    """Seconds a step of late, without compiles and checkpoints."""
    apart = sum(loop.charged.components.get(word, 0.0) for word in ("compile", "checkpoint"))
    return (loop.recent.wall - apart) / loop.recent.steps if loop.recent.steps else None
