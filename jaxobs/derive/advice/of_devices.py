"""Advice on the hardware: clocks that are held down."""

from __future__ import annotations

from collections.abc import Iterator

from jaxobs.derive.advice.facts import Facts
from jaxobs.derive.advice.finding import Finding
from jaxobs.derive.advice.reading import Document, ratio, rows, value
from jaxobs.report.units import rough_percent

BOUND_BY = {"compute": "clock", "memory": "memory_clock"}
"""Components of a loop's time that a clock stretches, and which."""

SPEED = {"compute": "FLOP/s", "memory": "memory bandwidth"}


def throttled_device(facts: Facts) -> Iterator[Finding]:
    """What full clocks would give back of the time that is bound by compute and by memory; of devices the slowest's."""
    found = [finding for device in rows(facts.document, "devices") if (finding := _throttled(facts, device))]
    if found:
        yield max(found, key=lambda finding: finding.saves_ratio or 0.0)


def _throttled(facts: Facts, device: Document) -> Finding | None:
    clocks, name = value(device, "clocks"), value(device, "device")
    gained, lost = 0.0, []
    for word, clock in BOUND_BY.items():
        taken, now = ratio(clocks, f"{word}_taken_ratio"), ratio(clocks, f"{clock}_ratio")
        share = sum(loop.share(word) or 0.0 for loop in facts.loops)
        if taken and share:
            gained += share * taken
            at = f" ({clock.replace('_', ' ')} now at {now:.2f} of its highest)" if now else ""
            lost.append(f"{rough_percent(taken)} of its {SPEED[word]}{at}")
    if not gained or not isinstance(name, int):
        return None
    reasons = value(clocks, "throttle_reasons")
    held = f": held down by {', '.join(map(str, reasons))}" if isinstance(reasons, list) and reasons else ""
    return Finding(
        {"device": str(name)},
        f"low clocks took device {name} {' and '.join(lost)} in the last half minute{held}",
        "where it is heat, look at its cooling and at what runs beside it; where it is power, raise its power limit if "
        "that is set below what the board allows; where it is a clock that somebody set, reset it",
        min(loop.confidence for loop in facts.loops),
        min(1.0, gained),
    )
