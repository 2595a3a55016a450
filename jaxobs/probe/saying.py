"""What jaxobs says while a job runs: lines to the logger `jaxobs`, never an exception."""

from __future__ import annotations

import contextlib
import logging

_log = logging.getLogger("jaxobs")


def warn(message: str) -> None:
    """A warning. Where no logging is configured Python shows the line alone, so it says who speaks."""
    with contextlib.suppress(Exception):  # the user's handlers and filters may raise
        _log.warning("jaxobs: %s", message)


def inform(message: str) -> None:
    """The same of what is no problem, which Python shows where the job has asked for it."""
    with contextlib.suppress(Exception):
        _log.info("jaxobs: %s", message)
