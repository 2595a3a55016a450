"""Charges each second of a loop's wall time once, and names the bottleneck: docs/how_it_works/bottlenecks.md."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from jaxobs.derive.executables.executable import Executable
from jaxobs.derive.executables.registry import Executables
from jaxobs.derive.loops.stretches import FEW_STEPS, MAX_DOUBT, Stretch
from jaxobs.derive.profiler_windows.loop_profile import LoopProfile, Part
from jaxobs.roofline_model.bottleneck import HALF_SURE_STEPS, Verdict, confidence, label_of_busy, margin
from jaxobs.vocabulary import activities
from jaxobs.vocabulary.units import count, duration
from jaxobs.vocabulary.words import BUSY, COMPONENTS, DEVICE, REST

ENOUGH_STEPS = 5
ENOUGH_SECONDS = 0.5
"""A label takes at least this many steps and seconds, or `FEW_STEPS` and `LONG_SECONDS`."""

LONG_SECONDS = 10.0
"""Few steps are enough where they are long: two that took ten seconds hold more moments than five of 0.1 s."""

DOUBT_OF_A_WHOLE = 0.5
"""Share in doubt of device time charged by executable: each is charged to the larger part of its bound time, so up to
half of it belongs to another component."""

MAX_BOUNDED = 0.05
"""Largest share of the wall time in which runs without a time may have been, for the device's idle time to be told."""

NOTHING = 1e-6
"""A share below this is none: it comes of rounding."""

SAMPLED, WOKEN = 0.1, 1e-4
"""What a share of sampled time may be off by, which is three standard deviations of a half by 200 samples; and seconds
until a thread that waits goes on once the device is done: waking one takes 3 to 40 µs (measured), and it then waits for
the interpreter lock."""

IDLE_KNOWN = 0.9
"""Share of turns with an idle device at their end from which on a host that is blocked is what the device waits for."""

IN_DOUBT = "the device may have worked on what was dispatched before, for another loop or this one"
BESIDE = "the device may have worked for calls on other threads"
OUTPACED = "the device worked for longer than its runs take, as they were timed last"
HOST_UNKNOWN = "the device was idle, and what the host did is not known"
NO_BOUND = (
    "the device worked on what has no bound time, as a peak is missing or its cost is not known yet, or took far longer "
    "than its work and launching it"
)

TRACED_EVENT = 0.7e-6
"""Most seconds by which tracing lengthens an operation: 0.4 to 0.7 µs on a CPU, in chains of 64 to 300 small ones,
whose runs took 1.5 to 4.2 times as long (measured on two cores)."""


class Known(NamedTuple):
    """What is known of a loop beside its stretches."""

    executables: Executables
    profile: LoopProfile | None = None
    sampled: Mapping[str, float] = {}
    """Seconds at which the loop's thread was seen of late, by activity; without any no time is charged by them."""
    idle_at_ends: float = 0.0
    """Share of turns at whose end the device was known to be idle."""
    watched: bool = False
    unwatched: str | None = None
    """A function that runs in the loop and is not watched."""


@dataclass(slots=True)
class Charged:
    """Wall time by component, and what that rests on; all in seconds."""

    components: dict[str, float]
    """They add up to the wall time; before they are held against it, they are the device's work alone."""
    as_whole: float = 0.0
    """Device seconds that were charged by executable, and not operation by operation."""
    doubtful: float = 0.0
    """By how much the device seconds of watched runs may be off, so that they may be the device's or the host's."""
    spent: dict[int, float] = field(default_factory=dict)
    """Device seconds by run."""
    untimed: Counter[int] = field(default_factory=Counter)
    """Calls of which it is not known how long the device took."""
    room: dict[int, float] = field(default_factory=dict)
    """The seconds that it can have taken for these, by run."""
    bounded: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Most seconds of work whose time is not known, by the reason."""
    idle: float | None = None
    """Seconds of `unknown` in which the device was idle; None where that is not known."""
    reason: str | None = None
    """Why there is unknown time, or the most of it."""


def charged(piece: Stretch, known: Known) -> Charged:
    """Charge the wall time of a stretch, or of several summed, to components.

    Compiles come first, during which the loop dispatches nothing. Busy seconds of the device come next, cut to the wall
    time in which it is not known to have been idle. Idle seconds go to what the host was doing: a checkpoint, waiting
    for input, then what samples of its thread saw, less the seconds that runs without a time may have taken. The rest is
    `unknown`; where the device is known to have worked in it, its runs take longer than is known.
    """
    busy = _busy(piece, known)
    busy.bounded[IN_DOUBT] += piece.doubtful
    components = dict.fromkeys(COMPONENTS, 0.0)
    components["compile"] = min(max(piece.compiling, 0.0), piece.wall)
    remaining = piece.wall - components["compile"]
    waited, idle = _idle(piece, known)
    total = sum(busy.components.values())
    share = min(1.0, max(0.0, remaining - idle) / total) if total > 0 else 0.0
    for word, amount in busy.components.items():
        components[word] += amount * share
    # The other steps took as long, unless those were few.
    worked = piece.worked * min(piece.steps / max(1, piece.worked_steps), 1 / MAX_DOUBT)
    worked, remaining = min(worked, remaining) - total * share, max(0.0, remaining - total * share)
    busy.bounded[OUTPACED] = lacking = max(0.0, worked - sum(busy.bounded.values()))
    for word, amount in (("checkpoint", piece.checkpoint), ("input", waited)):
        given = min(max(amount, 0.0), max(0.0, remaining - lacking))
        components[word] += given
        remaining -= given
    of_host = (activities.PROCESSOR, *((activities.WAITING,) if known.idle_at_ends >= IDLE_KNOWN else ()))
    sampled = sum(spent for activity, spent in known.sampled.items() if activity != activities.COMPILE)
    scale = (piece.wall - components["compile"]) / (sampled or 1.0)
    seen = {
        "input": scale * known.sampled.get(activities.INPUT, 0.0),
        "host": scale * sum(known.sampled.get(activity, 0.0) for activity in of_host),
    }
    together = sum(seen.values())
    bounded = sum(busy.bounded.values())
    left = max(0.0, min(remaining, together) - bounded)  # runs without a time may have been at any moment
    for word, amount in seen.items():
        components[word] += left * amount / (together or 1.0)
    rest = max(0.0, remaining - left)
    components["unknown"] += rest
    waits = scale * known.sampled.get(activities.DEVICE, 0.0)  # in which the device works
    busy_too = waits - total * share - bounded - WOKEN * piece.steps
    if busy_too > SAMPLED * piece.wall:
        busy.bounded[OUTPACED] += busy_too
        bounded += busy_too
    why = {reason: min(seconds, rest) for reason, seconds in busy.bounded.items()}
    why |= {HOST_UNKNOWN: max(0.0, rest - bounded), NO_BOUND: components["unknown"] - rest}
    return replace(
        busy,
        components=components,
        as_whole=share * min(busy.as_whole, total),
        doubtful=share * min(busy.doubtful, total),
        spent={run: share * amount for run, amount in busy.spent.items()},
        idle=max(0.0, rest - lacking) if bounded <= MAX_BOUNDED * piece.wall else None,
        reason=max(why, key=lambda each: why[each]) if max(why.values()) > 0 else None,
    )


def _idle(piece: Stretch, known: Known) -> tuple[float, float]:
    """Seconds that the loop waited for its input with the device idle, as far as known, and all known idle seconds."""
    profile = known.profile
    if known.watched or profile is None or profile.host_is_ahead:
        return piece.input, known.idle_at_ends * (piece.input + piece.checkpoint)
    waited = _idle_in_waits(profile, piece.input, piece.steps)
    return waited, waited


def _busy(piece: Stretch, known: Known) -> Charged:
    """The device's work in the stretch: what watched runs take, and what windows saw of the others."""
    busy, profile, named = Charged(defaultdict(float)), known.profile, set[str]()
    busy.bounded[BESIDE] = min(piece.wall, known.executables.most_seconds(piece.beside))
    for run, calls in piece.runs.items():
        executable = known.executables.get(run)
        if executable is None:
            if profile is None:  # windows see its operations, whichever executable ran
                why = known.executables.why_unseen((run,)) or "which executables ran is not visible"
                busy.bounded[why] += piece.within[run] / 1e9
            continue
        named.add(executable.fingerprint)
        _add_runs(busy, piece, run, calls, executable, known)
    beside = map(known.executables.get, piece.beside)
    named.update(executable.fingerprint for executable in beside if executable is not None)
    if profile is not None and profile.steps > 0:
        ahead = profile.host_is_ahead or (known.watched and known.idle_at_ends < IDLE_KNOWN)
        for word, amount in unwatched_device_time(profile, named, piece, ahead=ahead).items():
            busy.components[word] += amount
    elif known.unwatched is not None or not (piece.runs or known.watched):
        why = "no function of the loop is watched: only profiler windows show the device's work"
        if known.unwatched is not None:
            why = f"{known.unwatched} is not watched: only profiler windows show its work"
        busy.bounded = defaultdict(float, {why: piece.wall})
    return busy


def _add_runs(
    busy: Charged, piece: Stretch, run: int, calls: int, executable: Executable, known: Known
) -> None:
    per_run = known.executables.seconds_per_run(executable)
    within = min(piece.within[run] / 1e9, max(0.0, piece.wall - piece.compiling))
    if per_run is None:
        busy.untimed[run] = calls
        room = busy.room[run] = min(within, executable.most_seconds_per_run * calls)
        busy.bounded[f"no run of {executable.function} was timed"] += room
        return
    if known.idle_at_ends >= IDLE_KNOWN:  # the host waits for each run in its step
        per_run = min(per_run, within / calls)
    spent = busy.spent[run] = per_run * calls
    busy.doubtful += executable.doubt * spent
    parts = known.profile.parts if known.profile and executable.fingerprint else {}
    part = parts.get(executable.fingerprint)
    if part is not None and part.seconds:
        for word, amount in split(part, per_run).items():
            busy.components[word] += amount * calls
        return
    label = label_of_whole(executable, per_run)
    busy.components[label] += spent
    busy.as_whole += spent if label in DEVICE else 0.0


def label_of_whole(executable: Executable, per_run: float) -> str:
    """The component that all of an executable's time is charged to where no window has seen its operations."""
    if not executable.is_analysed or (executable.work is not None and executable.bound is None):
        return "unknown"  # not analysed yet, or no peaks to compare with
    return label_of_busy(executable.modelled, per_run)


def unwatched_device_time(
    profile: LoopProfile, watched: set[str], piece: Stretch, *, ahead: bool
) -> dict[str, float]:
    """Device seconds, by component, of these steps' runs of all but the executables with fingerprints in `watched`.

    Where the host runs `ahead` of the device, they are those of the runs that this many steps call. Otherwise the
    device works as long in a step as in a traced one, without the cost of tracing.
    """
    factor, gaps = (1.0, 0.0) if ahead else untraced(profile, piece)
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
    if alone:  # otherwise the time of the runs has the gaps in it
        found["latency"] += gaps * piece.steps
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
    if in_runs:
        own = per_run * min(1.0, total / in_runs)
    else:
        own = min(per_run, total / part.runs) if part.runs > 0 else per_run
    found = {word: amount / total * own for word, amount in part.seconds.items()}
    if own < per_run:
        found["latency"] = found.get("latency", 0.0) + per_run - own
    return found


def _idle_in_waits(profile: LoopProfile, waited: float, steps: float) -> float:
    """For how many of the `waited` seconds, in which the loop waited for input, the device was idle, too.

    It is taken to work as long in the waits of a step as in those of a traced step.
    """
    working = profile.input_busy_seconds / profile.steps * steps if profile.steps > 0 else 0.0
    return max(0.0, waited - working)


def untraced(profile: LoopProfile, piece: Stretch) -> tuple[float, float]:
    """The factor from the operations' time in traced steps to that in these, and the gap seconds of one of these.

    On a CPU tracing lengthens operations, the small ones most, and the steps with them. So both are shortened by as
    much as traced steps take longer, at most by TRACED_EVENT an operation. Where they took longer still, the window met
    a slow moment of the machine: then the device keeps its share of a step's time, not counting idle waits for input.

    A GPU and a TPU tell how long an operation took on a clock of their own. Tracing slows down its launch, by some 4 to
    20 µs on a GPU, where it switches off CUDA graphs besides: by as much as traced steps take longer gaps are shorter.
    """
    device, gaps = profile.device_seconds / profile.steps, profile.gap_seconds / profile.steps
    if device < sys.float_info.min or piece.steps == 0:  # a tenth of a smaller float may be 0
        return 1.0, gaps
    waiting = _idle_in_waits(profile, profile.input_seconds, profile.steps)
    traced = max(device, (profile.active_seconds - waiting) / profile.steps)
    waiting = _idle_in_waits(profile, piece.input, piece.steps)
    now = max(0.0, piece.wall - piece.compiling - piece.checkpoint - waiting) / piece.steps
    longer = max(0.0, traced - now)
    if profile.on_accelerator:
        return 1.0, max(0.0, gaps - longer)
    tracing = min(longer, TRACED_EVENT * profile.operations / profile.steps, 0.9 * device)
    factor = (device - tracing) * min(1.0, now / (traced - tracing)) / device
    return factor, factor * gaps


def decide(new: Charged, steps: int) -> Verdict:
    """The component with the largest share; surer with a larger margin, more steps, and less unexplained time."""
    components = new.components
    wall = sum(components.values())
    if wall <= 0:
        return Verdict("unknown", 0.0, None, reason=new.reason or "no step has been seen to end yet")
    shares = {word: components.get(word, 0.0) / wall for word in COMPONENTS}
    told = sum(share for share in shares.values() if share >= NOTHING)
    shares = {word: share / told if share >= NOTHING else 0.0 for word, share in shares.items()}
    some, long = steps >= ENOUGH_STEPS and wall >= ENOUGH_SECONDS, steps >= FEW_STEPS and wall >= LONG_SECONDS
    if not (some or long):
        few = f"{count(steps, 'step')} in {duration(wall)}"
        least = f"{ENOUGH_STEPS} steps and {ENOUGH_SECONDS} s, or {FEW_STEPS} steps and {LONG_SECONDS:g} s"
        reason = f"{few}, and a label takes at least {least}"
        return Verdict("unknown", 0.0, None, shares, reason)
    ranked = sorted(shares, key=lambda word: shares[word], reverse=True)
    first, second = ranked[0], ranked[1]
    lead = min(_lead(shares, first, other, new.doubtful / wall) for other in ranked[1:])
    explained = 1.0 - shares["unknown"] - shares["unmodelled"] - DOUBT_OF_A_WHOLE * new.as_whole / wall
    sure = confidence(lead, steps, HALF_SURE_STEPS, explained)
    why = new.reason or (NO_BOUND if first == "unknown" else None)
    return Verdict(first, sure, second if shares[second] > 0 else None, shares, why)


def _lead(shares: Mapping[str, float], first: str, other: str, doubtful: float) -> float:
    """The margin of `first` over `other`, as small as it is if the doubtful share belongs to the other side."""
    both = first in BUSY and other in BUSY
    moved = 0.0 if both else doubtful * sum(word in BUSY or word in REST for word in (first, other))
    return margin(shares[first], shares[other], moved)
