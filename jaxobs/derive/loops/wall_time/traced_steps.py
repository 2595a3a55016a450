"""Derives the device time of a loop's untraced steps from its traced ones."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Collection, Mapping

from jaxobs.derive.loops.wall_time.window import Slice
from jaxobs.derive.profiler_windows.loop_profile import LoopProfile, Part

TRACED_EVENT = 0.7e-6
"""Most seconds by which tracing lengthens an operation: 0.4 to 0.7 µs on a CPU, in chains of 64 to 300 small ones,
whose runs took 1.5 to 4.2 times as long (measured on two cores)."""

SLOW_MOMENT = 1.5
"""Traced steps that take more than this many times as long as the others did not merely meet a slow moment of the
machine."""

ALIKE = 1.25
"""Step times that differ by no more than this factor may be the same."""


def host_is_ahead(profile: LoopProfile | None, recent: Slice) -> bool:
    """Whether the host runs ahead of the device, so that the wall time of a step is not the device time of its work.

    Either the windows show it, or the loop's checkpoints wait for the device. They do where the device was busy for
    longer than the traced steps took without checkpoints, or where the loop's untraced steps are as long as the traced
    ones only with their checkpoints.
    """
    if profile is None or profile.steps <= 0 or not recent.steps:
        return False
    traced = profile.active_seconds / profile.steps
    now = _own(recent) / recent.steps
    waits = profile.device_seconds > ALIKE * profile.active_seconds or (
        SLOW_MOMENT * now < traced <= ALIKE * (now + recent.checkpoint / recent.steps)
    )
    return profile.host_is_ahead or (recent.checkpoint > 0 and waits)


def unwatched_device_time(
    profile: LoopProfile, watched: Collection[str], piece: Slice, *, ahead: bool
) -> dict[str, float]:
    """Device seconds, by component, of these steps' runs of all but the executables with fingerprints in `watched`.

    Where the host runs `ahead` of the device, they are those of the runs that this many steps call. Otherwise the
    device works as long in a step as in a traced one, without the cost of tracing.
    """
    factor = 1.0 if ahead else untraced(profile, piece)
    per_second = max(0.0, piece.wall - piece.compiling) / profile.seconds if profile.seconds > 0 else 0.0
    found: defaultdict[str, float] = defaultdict(float)
    alone = True
    for fingerprint, part in profile.parts.items():
        if fingerprint and fingerprint in watched:
            alone = alone and part.runs <= 0
            continue
        called, per_run = profile.calls_a_step(part), part.seconds_per_run
        seconds: Mapping[str, float] = part.seconds
        if not ahead:
            times = factor * piece.steps / profile.steps
        elif called and per_run is not None:
            seconds, times = split(part, per_run), called * piece.steps
        else:  # how often it is called is not known: the device spends the same share of the time in it
            times = per_second
        for word, amount in seconds.items():
            found[word] += amount * times
    if alone and not ahead:  # otherwise the time of the runs has the gaps in it
        found["latency"] += profile.gap_seconds * factor * piece.steps / profile.steps
    return found


def split(part: Part, per_run: float) -> dict[str, float]:
    """The device seconds of one untraced run by component, in the proportions of the traced runs' operations.

    Where the operations took less than the whole run, the rest is `latency`: the device waited between them.
    """
    total = sum(part.seconds.values())
    if total <= 0:
        return {"unknown": per_run}
    # Where traced runs are told apart, the gaps between their operations are known: this run is the same, scaled.
    in_runs = part.run_seconds or 0.0
    own = per_run * min(1.0, total / in_runs) if in_runs else min(per_run, total / part.runs)
    found = {word: amount / total * own for word, amount in part.seconds.items()}
    if own < per_run:
        found["latency"] = found.get("latency", 0.0) + per_run - own
    return found


def idle_in_waits(profile: LoopProfile, waited: float, steps: float) -> float:
    """For how many of the `waited` seconds, in which the loop waited for input, the device was idle, too.

    It is taken to work as long in the waits of a step as in those of a traced step.
    """
    working = profile.input_busy_seconds / profile.steps * steps if profile.steps > 0 else 0.0
    return max(0.0, waited - working)


def untraced(profile: LoopProfile, piece: Slice) -> float:
    """The factor from the device time of traced steps to that of these untraced ones.

    Tracing lengthens operations, the small ones most, and the steps with them. So both are shortened by as much as
    traced steps take longer, at most by TRACED_EVENT an operation. Where traced steps took longer still, the window met
    a slow moment of the machine: then the device keeps its share of a step's time, not counting idle waits for input.
    """
    device = profile.device_seconds / profile.steps
    if device < sys.float_info.min or piece.steps == 0:  # a tenth of a smaller float may be 0
        return 1.0
    waiting = idle_in_waits(profile, profile.input_seconds, profile.steps)
    traced = max(device, (profile.active_seconds - waiting) / profile.steps)
    waiting = idle_in_waits(profile, piece.input_wait, piece.steps)
    now = max(0.0, _own(piece) - waiting) / piece.steps
    tracing = min(max(0.0, traced - now), TRACED_EVENT * profile.operations / profile.steps, 0.9 * device)
    return (device - tracing) * min(1.0, now / (traced - tracing)) / device


def _own(piece: Slice) -> float:
    return max(0.0, piece.wall - piece.compiling - piece.checkpoint)
