"""What samples of the main thread prove of the time in which the device was idle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from jaxobs.vocabulary.activities import INPUT, PROCESSOR

ENOUGH = 0.5
"""Share of a stretch that its own samples must stand for; else those of the last half minute are taken, as a stretch of a
second may fall between two reports of the sampler."""


class HostShares(NamedTuple):
    """Shares of a stretch's wall time: the main thread was on a processor, or below an iterator of data without a mark.

    0 where nothing is known: then no time is charged to either.
    """

    on_processor: float = 0.0
    input: float = 0.0


NOTHING_KNOWN = HostShares()


def host_shares(sampled: Mapping[str, float], wall: float, recent: Mapping[str, float]) -> HostShares:
    """From sampled seconds by activity, of a stretch and of the last half minute."""
    found = sampled if sum(sampled.values()) >= ENOUGH * wall else recent
    total = sum(found.values())
    if total <= 0:
        return NOTHING_KNOWN
    return HostShares(found.get(PROCESSOR, 0.0) / total, found.get(INPUT, 0.0) / total)
