"""Writes lines to the logger `jaxobs` while a job runs, whatever is in them, and never raises."""

from __future__ import annotations

import logging

from jaxobs.plugin.guard import Suppressed
from jaxobs.vocabulary.text import printable

_log = logging.getLogger("jaxobs")


def warn(message: str) -> None:
    """Log a warning. It begins with `jaxobs:`, because without configured logging Python prints the message alone."""
    with Suppressed(Exception):  # the user's handlers and filters may raise
        _log.warning("jaxobs: %s", printable(message))


def inform(message: str) -> None:
    """Log a piece of information, which is shown only where the job's logging includes it."""
    with Suppressed(Exception):
        _log.info("jaxobs: %s", printable(message))
