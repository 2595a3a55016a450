"""Charging each second of wall time once, and naming the bottleneck: docs/how_it_works/bottlenecks.md."""

from __future__ import annotations

from collections.abc import Mapping

from jaxobs.derive.loops.wall_time.host_evidence import NOTHING_KNOWN, HostShares
from jaxobs.roofline_model.bottleneck import HALF_SURE_STEPS, Verdict, confidence, margin
from jaxobs.vocabulary.units import rough
from jaxobs.vocabulary.words import BUSY, COMPONENTS, DEVICE, REST

ENOUGH_STEPS = 5
ENOUGH_SECONDS = 0.5
"""A label takes at least this many steps and seconds, or `FEW_STEPS` and `LONG_SECONDS`."""

FEW_STEPS = 2
LONG_SECONDS = 10.0
"""Few steps are enough where they are long: two that took ten seconds hold more moments than five of 0.1 s."""

DOUBT_OF_A_WHOLE = 0.5
"""Share in doubt of device time charged by executable: each is charged to the larger part of its bound time, so up to
half of it belongs to another component."""


def charge(
    wall: float,
    *,
    compiling: float,
    checkpoint: float,
    input_wait: float,
    busy: Mapping[str, float],
    all_busy_known: bool,
    idle_wait: float = 0.0,
    host: HostShares = NOTHING_KNOWN,
) -> tuple[dict[str, float], float]:
    """Charge wall time: seconds of each component, which add up to `wall`, and those of `unknown` left unexplained.

    Compiles come first, during which the loop dispatches nothing. Busy seconds of the device come next, cut to the wall
    time that is left. Idle seconds go to what the host was doing: a checkpoint, waiting for input. The rest is `input`
    and `host` as far as samples of the main thread say so, and else `unknown`; where not all busy time is known, none
    of it is `host`. For `idle_wait` seconds of the wait for input the device is known to have been idle: no busy time
    lies there.
    """
    components = dict.fromkeys(COMPONENTS, 0.0)
    components["compile"] = min(max(compiling, 0.0), wall)
    remaining = wall - components["compile"]
    busy_total = sum(busy.values())
    room = max(0.0, remaining - max(idle_wait, 0.0))
    scale = min(1.0, room / busy_total) if busy_total > 0 else 0.0
    for word, amount in busy.items():
        components[word] += amount * scale
    remaining = max(0.0, remaining - busy_total * scale)
    for word, amount in (("checkpoint", checkpoint), ("input", input_wait)):
        charged = min(max(amount, 0.0), remaining)
        components[word] += charged
        remaining -= charged
    seen = {
        "input": max(host.input, 0.0) * wall,
        "host": max(host.on_processor, 0.0) * wall if all_busy_known else 0.0,
    }
    together = sum(seen.values())
    part = min(1.0, remaining / together) if together > 0 else 0.0
    for word, amount in seen.items():
        components[word] += part * amount
    unexplained = max(0.0, remaining - part * together)
    components["unknown"] += unexplained
    return components, unexplained


def decide(
    components: Mapping[str, float], steps: int, by_operation: float | None = None, doubtful: float = 0.0
) -> Verdict:
    """The component with the largest share; surer with a larger margin, more steps, and less unexplained time.

    `by_operation`: device seconds among the components that were charged operation by operation; None: all of them.
    `doubtful`: seconds by which the sampled device time may be off, so that they may be the device's or the host's.
    """
    wall = sum(components.values())
    if wall <= 0:
        return Verdict("unknown", 0.0, None, reason="no step has ended yet")
    shares = {word: components.get(word, 0.0) / wall for word in COMPONENTS}
    some, long = steps >= ENOUGH_STEPS and wall >= ENOUGH_SECONDS, steps >= FEW_STEPS and wall >= LONG_SECONDS
    if not (some or long):
        few = f"{steps} step{'' if steps == 1 else 's'} in {rough(wall)} s"
        least = f"{ENOUGH_STEPS} steps and {ENOUGH_SECONDS} s, or {FEW_STEPS} steps and {LONG_SECONDS:g} s"
        reason = f"{few}, and a label takes at least {least}"
        return Verdict("unknown", 0.0, None, shares, reason)
    ranked = sorted(shares, key=lambda word: shares[word], reverse=True)
    first, second = ranked[0], ranked[1]
    lead = min(_lead(shares, first, other, doubtful / wall) for other in ranked[1:])
    device = sum(components.get(word, 0.0) for word in DEVICE)
    as_a_whole = 0.0 if by_operation is None else max(0.0, device - by_operation) / wall
    explained = 1.0 - shares["unknown"] - shares["unmodelled"] - DOUBT_OF_A_WHOLE * as_a_whole
    sure = confidence(lead, steps, HALF_SURE_STEPS, explained)
    return Verdict(first, sure, second if shares[second] > 0 else None, shares)


def _lead(shares: Mapping[str, float], first: str, other: str, doubtful: float) -> float:
    """The margin of `first` over `other`, as small as it is if the doubtful share belongs to the other side."""
    both = first in BUSY and other in BUSY
    moved = 0.0 if both else doubtful * sum(word in BUSY or word in REST for word in (first, other))
    return margin(shares[first], shares[other], moved)
