"""The lines of the main thread in words for a reader: `train.py:88 collate 21 %`, `queue.get in grain 9 %`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from jaxobs.report.units import rough_percent
from jaxobs.vocabulary.activities import COMPILE, DEVICE, DISPATCH

LEAST_SHARE: Final = 0.02
"""With some hundred samples a share is known to within two to four points."""

THE_DEVICES: Final = {DEVICE, DISPATCH, COMPILE}
"""Activities in which the main thread does what the device or the compiler makes it wait for."""


def main_thread_shares(document: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Where the main thread of a loop, or of the process, is while it does not wait for the device or a compile.

    `document` has the rows `host_lines`. The largest comes first; each has its share of all sampled time.
    """
    rows = document.get("host_lines")
    shares: dict[str, float] = {}
    for row in rows if isinstance(rows, list | tuple) else ():
        if isinstance(row, Mapping) and row.get("activity") not in THE_DEVICES:
            name = _words(row)
            shares[name] = shares.get(name, 0.0) + float(row.get("share") or 0.0)
    ranked = sorted(shares.items(), key=lambda pair: -pair[1])
    return [(name, share) for name, share in ranked if share >= LEAST_SHARE]


def main_thread_lines(document: Mapping[str, Any]) -> list[str]:
    """The lines with their shares in words: `train.py:88 collate 21 %`."""
    return [f"{name} {rough_percent(share)}" for name, share in main_thread_shares(document)]


def waiting_for_device(document: Mapping[str, Any]) -> float:
    """Share of all sampled time in which the main thread waited for a device."""
    rows = document.get("host_lines")
    return sum(
        float(row.get("share") or 0.0)
        for row in (rows if isinstance(rows, list | tuple) else ())
        if isinstance(row, Mapping) and row.get("activity") == DEVICE
    )


def _words(row: Mapping[str, Any]) -> str:
    """One row: the user's line, and what it waits in."""
    below = row.get("waits_in")
    return f"{row.get('line')} ({below})" if below else str(row.get("line"))
