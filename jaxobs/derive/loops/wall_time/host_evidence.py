"""What samples of the main thread show of the time in which the device was idle, or busy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from jaxobs.vocabulary.activities import DEVICE, INPUT, PROCESSOR

ENOUGH = 0.5
"""Share of a stretch that its own samples must cover; else the samples of the last half minute are used, as a stretch
of a second may fall between two reports of the sampler."""


class HostShares(NamedTuple):
    """Shares of a stretch's wall time: on a processor, below an unmarked iterator of data, waiting for the device.

    All are 0 where nothing is known of the main thread: then no time is charged by them.
    """

    on_processor: float = 0.0
    input: float = 0.0
    waiting: float = 0.0


NOTHING_KNOWN = HostShares()


def host_shares(sampled: Mapping[str, float], wall: float, recent: Mapping[str, float]) -> HostShares:
    """Shares of a stretch of `wall` seconds, from `sampled` seconds by activity, or `recent` where these are few."""
    found = sampled if sum(sampled.values()) >= ENOUGH * wall else recent
    total = sum(found.values())
    if total <= 0:
        return NOTHING_KNOWN
    return HostShares(*(found.get(activity, 0.0) / total for activity in (PROCESSOR, INPUT, DEVICE)))
