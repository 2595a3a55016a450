"""How large an output may be for a reference to it to be kept until the device is done with it.

Until then the device needs its memory anyway. Keeping it costs the time between the moment it is ready and the poll
that sees this: at most 3 % of the run, or 50 ms. For so long a job that has released the output lacks its memory.
"""

from __future__ import annotations

import contextlib
import os
from functools import cache
from typing import Any

from jaxobs.plugin.control_groups import Group, find_group, memory_limit, memory_used

ALWAYS = 2**20
"""Bytes of the largest output that is always kept: no job misses so few."""

PART = 0.05
"""Share of the free memory that all outputs kept at once may take."""


def room(leaf: Any, kept_at_once: int) -> int:
    """The most bytes that an output like this one may have; `leaf` is an array of JAX's own."""
    free = _free_on_device(leaf)
    return max(ALWAYS, int(PART * free / kept_at_once)) if free is not None else ALWAYS


def _free_on_device(leaf: Any) -> int | None:
    """Free bytes in the memory that holds the array; None where that is not known."""
    device = next(iter(leaf.sharding.addressable_devices))
    if device.platform == "cpu":
        return _free_on_host()
    statistics = device.memory_stats() or {}
    limit, in_use = statistics.get("bytes_limit"), statistics.get("bytes_in_use")
    return None if limit is None or in_use is None else max(0, limit - in_use)


def _free_on_host() -> int | None:
    """Free bytes of the host, page cache not counted as free; in a container no more than its limit leaves."""
    with contextlib.suppress(OSError, ValueError):
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        with contextlib.suppress(OSError, LookupError, ValueError):  # no control groups here
            group = _own_group()
            folder, limit = memory_limit(group)
            if limit is not None:
                free = min(free, int(limit) - memory_used(group, folder))
        return max(0, free)
    return None


@cache
def _own_group() -> Group:
    """The control group of this process; read once, because the list of mounts may be long."""
    return find_group("memory")
