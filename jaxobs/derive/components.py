"""Where the wall time of a stretch of a loop went, of what is known of its device, its input and its compiles."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from jaxobs.derive import bottleneck
from jaxobs.derive.executable import Executable
from jaxobs.derive.executables import Executables
from jaxobs.derive.loop_profile import LoopProfile, Part
from jaxobs.derive.window import Slice

TRACED_EVENT = 0.7e-6
"""Seconds by which tracing lengthens an operation at most: 0.4 to 0.7 µs an operation of a CPU, in chains of 64 to 300
small ones, whose runs took 1.5 to 4.2 times as long (measured on two cores)."""


class Charged(NamedTuple):
    """Seconds of each component, which add up to the wall time."""

    components: dict[str, float]
    by_operation: float
    """Device seconds that were told operation by operation."""
    sampled: float
    """Device seconds of watched runs."""
    doubtful: float
    """Those by which their sampled times may be off."""


def components_of(
    piece: Slice, executables: Executables, profile: LoopProfile | None, *, all_watched: bool
) -> Charged:
    """What the wall time of a stretch is charged to.

    Device time is that of sampled runs where they are known, else that of the windows, as long as a step takes untraced.
    What it is charged to is told by the windows, else by each executable as a whole. `all_watched`: nothing but watched
    functions is known to run in the loop.
    """
    busy, told, doubtful, complete = _watched(piece, executables, profile)
    sampled = sum(busy.values())
    if profile is not None and profile.steps > 0:
        factor = untraced(profile, piece)
        seen = {made.fingerprint for run in piece.runs if (made := executables.get(run)) is not None}
        for word, amount in _others(profile, seen).items():
            busy[word] += amount * factor * piece.steps / profile.steps
            told += amount * factor * piece.steps / profile.steps
        known = complete
    else:
        known = complete and bool(piece.runs) and all_watched
    idle_wait = idle_in_waits(profile, piece.input_wait, piece.steps) if profile is not None else 0.0
    components = bottleneck.charge(
        piece.wall, compiling=piece.compiling, checkpoint=piece.checkpoint, busy=busy, all_busy_known=known,
        input_wait=piece.input_wait if profile is None else idle_wait, idle_wait=idle_wait,
    )  # fmt: skip
    total = sum(busy.values())
    charged = _device_time(components, busy) / total if total > 0 else 0.0
    return Charged(components, charged * min(told, total), charged * sampled, charged * min(doubtful, total))


def idle_in_waits(profile: LoopProfile, waited: float, steps: float) -> float:
    """Of so many seconds of waiting for input, those in which the device did nothing either.

    It works in the waits of a step for as long as it did in those of a traced one.
    """
    working = profile.input_busy_seconds / profile.steps * steps if profile.steps > 0 else 0.0
    return max(0.0, waited - working)


def untraced(profile: LoopProfile, piece: Slice) -> float:
    """What the device time of traced steps is multiplied by, to be that of these untraced ones.

    Tracing lengthens operations, the small ones most, and the steps with them: by how much longer traced steps take, at
    most TRACED_EVENT an operation, both are shortened. Where traced steps were slower still, the window met a slow
    moment: the device's share of a step holds, waits for input apart, in which it was idle.
    """
    device = profile.device_seconds / profile.steps
    if device <= 0 or piece.steps == 0:
        return 1.0
    waiting = idle_in_waits(profile, profile.input_seconds, profile.steps)
    traced = max(device, (profile.active_seconds - waiting) / profile.steps)
    waiting = idle_in_waits(profile, piece.input_wait, piece.steps)
    now = max(0.0, piece.wall - piece.compiling - piece.checkpoint - waiting) / piece.steps
    tracing = min(max(0.0, traced - now), TRACED_EVENT * profile.operations / profile.steps, 0.9 * device)
    return (device - tracing) * min(1.0, now / (traced - tracing)) / device


def _watched(
    piece: Slice, executables: Executables, profile: LoopProfile | None
) -> tuple[defaultdict[str, float], float, float, bool]:
    """Device time of watched runs by what it is charged to, of it by operations and in doubt, and whether it is all."""
    busy: defaultdict[str, float] = defaultdict(float)
    told, doubtful, complete = 0.0, 0.0, True
    for run, count in piece.runs.items():
        made = executables.get(run)
        if made is None:
            # It is not visible which executable ran. Windows see it all the same.
            complete = complete and profile is not None
            continue
        part = profile.parts.get(made.fingerprint) if profile is not None and made.fingerprint else None
        per_run = made.seconds_per_run
        traced = part.seconds_per_run if part is not None else None
        doubtful += made.doubt * (per_run or 0.0) * count
        if part is not None and traced is not None:
            per_run = traced if per_run is None else per_run
            for word, amount in split(part, per_run).items():
                busy[word] += amount * count
            told += per_run * count
        elif per_run is None:
            complete = False
        else:
            busy[_label_of_whole(made, per_run)] += per_run * count
    return busy, told, doubtful, complete


def split(part: Part, per_run: float) -> dict[str, float]:
    """The device time of one untraced run by what it is charged to, as the operations of traced ones were.

    Where the operations took less than the run does, the device waited between them.
    """
    total = sum(part.seconds.values())
    if total <= 0:
        return {"unknown": per_run}
    # Traced runs that are told apart tell what lay between their operations, too: this one differs only in its length.
    told_apart = part.run_seconds or 0.0
    own = per_run * min(1.0, total / told_apart) if told_apart else min(per_run, total / part.runs)
    found = {word: amount / total * own for word, amount in part.seconds.items()}
    if own < per_run:
        found["latency"] = found.get("latency", 0.0) + per_run - own
    return found


def _others(profile: LoopProfile, watched: set[str]) -> dict[str, float]:
    """Device time in the windows of what is not watched, by what it is charged to."""
    found: defaultdict[str, float] = defaultdict(float)
    alone = True
    for fingerprint, part in profile.parts.items():
        if fingerprint and fingerprint in watched:
            alone = alone and part.runs <= 0
            continue
        for word, amount in part.seconds.items():
            found[word] += amount
    if alone:  # else the gaps are in the sampled time of the watched runs
        found["latency"] += profile.gap_seconds
    return found


def _label_of_whole(made: Executable, per_run: float) -> str:
    if not made.is_analysed or (made.work is not None and made.bound is None):
        return "unknown"  # not yet, or no peaks to hold it against
    return bottleneck.label_of_busy(made.bound, per_run, complete=made.is_modelled)


def _device_time(components: Mapping[str, float], busy: Mapping[str, float]) -> float:
    """Seconds that were charged to the device."""
    return sum(components[word] for word in busy if word not in {"host", "input", "checkpoint", "compile"})
