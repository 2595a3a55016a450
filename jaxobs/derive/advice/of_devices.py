"""Advice on the hardware: clocks that are held down."""

from __future__ import annotations

from collections.abc import Iterator

from jaxobs.derive.advice.facts import Facts
from jaxobs.derive.advice.finding import Finding
from jaxobs.derive.devices import DeviceView
from jaxobs.vocabulary.units import rough_percent

SPEED = {"compute": "FLOP/s", "memory": "memory bandwidth"}


def throttled_device(facts: Facts) -> Iterator[Finding]:
    """Clocks that are held down, on the device that loses most by them.

    The share is what full clocks would give back of the time bound by compute and by memory.
    """
    found = [finding for device in facts.devices if (finding := _throttled(facts, device))]
    if found:
        yield max(found, key=lambda finding: finding.saves_ratio or 0.0)


def _throttled(facts: Facts, device: DeviceView) -> Finding | None:
    clocks = device.clocks.value
    if clocks is None:
        return None
    gained, lost = 0.0, []
    for word, clock, taken, now in (
        ("compute", "clock", clocks.compute_taken_ratio.value, clocks.clock_ratio.value),
        ("memory", "memory clock", clocks.memory_taken_ratio.value, clocks.memory_clock_ratio.value),
    ):
        share = sum(loop.share(word) or 0.0 for loop in facts.loops)
        if taken and share:
            gained += share * taken
            at = f" ({clock} now at {now:.2f} of its highest)" if now else ""
            lost.append(f"{rough_percent(taken)} of its {SPEED[word]}{at}")
    if not gained:
        return None
    reasons = clocks.throttle_reasons.value
    held = f": held down by {', '.join(reasons)}" if reasons else ""
    return Finding(
        {"device": str(device.device)},
        f"low clocks took device {device.device} {' and '.join(lost)} in the last half minute{held}",
        "where it is heat, look at its cooling and at what runs beside it; where it is power, raise its power limit if "
        "that is set below what the board allows; where it is a clock that somebody set, reset it",
        min(loop.confidence for loop in facts.loops),
        min(1.0, gained),
    )
