"""Charges the wall time of a stretch of a loop to components, by what is known of device, input and compiles."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from jaxobs.derive.executables.executable import Executable
from jaxobs.derive.loops.timing.in_flight import IN_FLIGHT
from jaxobs.derive.loops.wall_time import bottleneck
from jaxobs.derive.loops.wall_time.host_evidence import NOTHING_KNOWN, HostShares
from jaxobs.derive.loops.wall_time.traced_steps import idle_in_waits, split, unwatched_device_time
from jaxobs.derive.loops.wall_time.window import Slice
from jaxobs.derive.profiler_windows.loop_profile import LoopProfile
from jaxobs.roofline_model.bottleneck import label_of_busy

MOST_HIDDEN = 0.05
"""Most seconds by which uneven runs may exceed their median, as a share of the stretch's wall time, for device time to
count as known. Polls are late by more than a run of 0.1 ms takes: that a step of 50 ms has such a run is no reason to
know nothing of its host."""

TOO_LONG = 0.0005
"""Seconds by which the sampled time of a run may be too long: a run of 6 µs that ends within its call is reported to be
as long as the call, 36 to 1 700 µs (measured on two loaded cores)."""


class Charged(NamedTuple):
    """Seconds of each component, which add up to the wall time."""

    components: dict[str, float]
    by_operation: float
    """Device seconds that were charged operation by operation."""
    sampled: float
    """Device seconds of watched runs."""
    doubtful: float
    """Seconds by which the sampled times of watched runs may be off."""
    unattributed: Mapping[str, float] = MappingProxyType({})
    """Device seconds of unwatched functions, by component, that are still to come where the host runs ahead."""
    idle_unknown: float | None = None
    """Seconds of `unknown` in which the device is known to have been idle; None where not all busy time is known."""


def components_of(
    piece: Slice,
    executable_of: Callable[[int], Executable | None],
    profile: LoopProfile | None,
    *,
    all_watched: bool,
    ahead: bool = False,
    unattributed: Mapping[str, float] | None = None,
    host: HostShares = NOTHING_KNOWN,
) -> Charged:
    """Charge the wall time of a stretch to components.

    Device time is that of sampled runs where these are known, else that of profiler windows, scaled to untraced steps.
    It is charged as the operations in the windows were, else to one component for each executable as a whole.
    `all_watched`: no function is known to run in the loop unwatched. `ahead`: the host runs ahead of the device.
    `unattributed`: device seconds of unwatched functions that earlier steps have left over, by component. `host`: what
    samples of the main thread say of this stretch.
    """
    busy, by_operation, doubtful, complete = _watched(piece, executable_of, profile)
    sampled = sum(busy.values())
    unwatched: dict[str, float] = {}
    if profile is not None and profile.steps > 0:
        ran = filter(None, map(executable_of, piece.runs))
        seen = {executable.fingerprint for executable in ran}
        unwatched = unwatched_device_time(profile, seen, piece, ahead=ahead)
        for word, amount in [*unwatched.items(), *(unattributed or {}).items()]:
            busy[word] += amount
            by_operation += amount
        known = complete
    else:
        known = complete and bool(piece.runs) and all_watched
    steady = profile is not None and not ahead
    # Where the host runs ahead, it is not known what the device does while the host waits: busy time comes first.
    idle_wait = idle_in_waits(profile, piece.input_wait, piece.steps) if profile and not ahead else 0.0
    components, unexplained = bottleneck.charge(
        piece.wall, compiling=piece.compiling, checkpoint=piece.checkpoint, busy=busy, all_busy_known=known,
        input_wait=idle_wait if steady else piece.input_wait, idle_wait=idle_wait, host=host,
    )  # fmt: skip
    total = sum(busy.values())
    device = sum(components[word] for word in busy) - (unexplained if "unknown" in busy else 0.0)
    charged = device / total if total > 0 else 0.0
    return Charged(
        components, charged * min(by_operation, total), charged * sampled, charged * min(doubtful, total),
        {} if not ahead else _left_over(unwatched, unattributed or {}, piece.steps, 1 - charged),
        unexplained if known else None,
    )  # fmt: skip


def _left_over(
    unwatched: Mapping[str, float], unattributed: Mapping[str, float], steps: int, share: float
) -> dict[str, float]:
    """Device seconds by component that are still to come, where this share of the work found no room in wall time."""
    left = Counter({word: amount * share for word, amount in unattributed.items()})
    left.update({word: amount * share for word, amount in unwatched.items()})
    most = IN_FLIGHT * sum(unwatched.values()) / steps if steps else math.inf
    kept = min(1.0, most / total) if (total := sum(left.values())) > 0 else 0.0
    return {word: amount * kept for word, amount in left.items()}


def _watched(
    piece: Slice, executable_of: Callable[[int], Executable | None], profile: LoopProfile | None
) -> tuple[defaultdict[str, float], float, float, bool]:
    """Device seconds of watched runs: by component, charged by operation, and doubtful; and whether all are known."""
    busy: defaultdict[str, float] = defaultdict(float)
    by_operation, doubtful, complete = 0.0, 0.0, True
    for run in dict.fromkeys([*piece.runs, *piece.spent]):
        executable = executable_of(run)
        if executable is None:
            # It is not visible which executable ran, but profiler windows see its operations.
            complete = complete and profile is not None
            continue
        part = profile.parts.get(executable.fingerprint) if profile and executable.fingerprint else None
        per_run = executable.seconds_per_run
        traced = part.seconds_per_run if part is not None else None
        if per_run is None:
            per_run = traced
        if per_run is None:
            complete = False
            continue
        hidden = executable.hidden_seconds * piece.runs.get(run, 0)
        complete = complete and hidden <= MOST_HIDDEN * piece.wall
        spent = piece.spent.get(run, 0.0)
        doubtful += executable.doubt * spent
        if part is not None and traced is not None:
            for word, amount in split(part, per_run).items():
                busy[word] += amount * (spent / per_run if per_run else 0.0)
            by_operation += spent
        else:
            busy[_label_of_whole(executable, per_run)] += spent
    return busy, by_operation, doubtful, complete


def _label_of_whole(executable: Executable, per_run: float) -> str:
    if not executable.is_analysed or (executable.work is not None and executable.bound is None):
        return "unknown"  # not analysed yet, or no peaks to compare with
    label = label_of_busy(
        executable.bound, per_run, complete=executable.is_modelled, operations=executable.operations
    )
    if label == "latency" and per_run < TOO_LONG:
        return "unknown"  # only a profiler window distinguishes the latency of the run from that of its call
    return label
