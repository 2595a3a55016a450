"""What jaxobs says while a job runs: lines to the logger `jaxobs`, never an exception."""

from __future__ import annotations

import logging

from jaxobs.plugin.guard import Suppressed

_log = logging.getLogger("jaxobs")


def warn(message: str) -> None:
    """A warning. Where no logging is configured Python shows the line alone, so it says who speaks."""
    with Suppressed(Exception):  # the user's handlers and filters may raise
        _log.warning("jaxobs: %s", message)


def inform(message: str) -> None:
    """Log what is no problem, which Python shows where the job has asked for it."""
    with Suppressed(Exception):
        _log.info("jaxobs: %s", message)
