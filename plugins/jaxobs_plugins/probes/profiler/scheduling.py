"""Decides whether windows are scheduled at all, and says why not. Windows that are asked for are made in any case."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Mapping
from typing import Any

FIRST_SCHEDULED = (0, 8, 2)
"""First version of jaxlib with scheduled windows. In older ones `stop()` holds the interpreter lock throughout (65 ms
in 0.8.0), no operation of a CPU is recorded, and up to 0.7.2 each session writes a line to the console."""


def why_not_scheduled(settings: Mapping[str, Any], jaxlib: tuple[int, ...]) -> str:
    """The reason why no windows are scheduled, empty where they are. `jaxlib` is its version, empty where unknown."""
    asked = "those that are asked for are made"
    if settings.get("profile_budget_ratio", 1.0) <= 0:
        return f"no profiler windows are scheduled: JAXOBS_PROFILE_BUDGET_RATIO=0; {asked}"
    if jaxlib < FIRST_SCHEDULED:
        version = f"jaxlib {'.'.join(map(str, jaxlib))}" if jaxlib else "an unknown version of jaxlib"
        first = ".".join(map(str, FIRST_SCHEDULED))
        return (
            f"no profiler windows are scheduled with {version}, whose profiler holds up the job; from {first} on they "
            f"are; {asked}"
        )
    return ""


def installed_jaxlib() -> tuple[int, ...]:
    """The installed version of jaxlib, read without importing it; empty where there is none."""
    try:
        version = importlib.metadata.version("jaxlib")
    except importlib.metadata.PackageNotFoundError:
        return ()
    numbers = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, numbers[0].split("."))) if numbers else ()
