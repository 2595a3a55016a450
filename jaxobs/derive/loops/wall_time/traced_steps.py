"""What the traced steps of a loop say of the device time of its untraced ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from jaxobs.derive.loops.wall_time.window import Slice
from jaxobs.derive.profiler_windows.loop_profile import LoopProfile, Part

TRACED_EVENT = 0.7e-6
"""Seconds by which tracing lengthens an operation at most: 0.4 to 0.7 µs an operation of a CPU, in chains of 64 to 300
small ones, whose runs took 1.5 to 4.2 times as long (measured on two cores)."""


SLOW_MOMENT = 1.5
"""Traced steps that take so many times as long as the others met no slow moment of the machine only."""

ALIKE = 1.25
"""Step times that differ by no more than this factor may be the same."""


def host_is_ahead(profile: LoopProfile | None, recent: Slice) -> bool:
    """Whether the host runs ahead of the device, so that a step's time on the host is not its work's on the device.

    Either the windows show that, or its checkpoints wait for the device: it worked for longer than the rest of the traced
    steps took, or these take as long as the loop's steps do only with the checkpoints.
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
    """Device seconds of these steps in what is not watched (fingerprints `watched`), by what they are charged to.

    Where the host runs `ahead` of the device they are those of the runs that so many steps call. Else the device works
    for as long in a step as it did in a traced one.
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
        else:  # how often it is called is not known: it is under way for the same share of the time
            times = per_second
        for word, amount in seconds.items():
            found[word] += amount * times
    if alone and not ahead:  # else the gaps are in the time of the runs
        found["latency"] += profile.gap_seconds * factor * piece.steps / profile.steps
    return found


def split(part: Part, per_run: float) -> dict[str, float]:
    """The device time of one untraced run by what it is charged to, as the operations of traced ones were.

    Where the operations took less than the run does, the device waited between them.
    """
    total = sum(part.seconds.values())
    if total <= 0:
        return {"unknown": per_run}
    # Traced runs that are told apart tell what lay between their operations, too: this one differs only in its length.
    in_runs = part.run_seconds or 0.0
    own = per_run * min(1.0, total / in_runs) if in_runs else min(per_run, total / part.runs)
    found = {word: amount / total * own for word, amount in part.seconds.items()}
    if own < per_run:
        found["latency"] = found.get("latency", 0.0) + per_run - own
    return found


def idle_in_waits(profile: LoopProfile, waited: float, steps: float) -> float:
    """The part of so many seconds of waiting for input in which the device did nothing either.

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
    now = max(0.0, _own(piece) - waiting) / piece.steps
    tracing = min(max(0.0, traced - now), TRACED_EVENT * profile.operations / profile.steps, 0.9 * device)
    return (device - tracing) * min(1.0, now / (traced - tracing)) / device


def _own(piece: Slice) -> float:
    return max(0.0, piece.wall - piece.compiling - piece.checkpoint)
