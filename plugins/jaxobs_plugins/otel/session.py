"""One request, one attempt; whether to try again is decided elsewhere.

The SDK's exporter reads the `OTEL_…` variables, encodes, compresses and sends. Left to itself it also sleeps
between attempts, from 1.30 to 1.45 by different rules and for up to a minute, does not tell why it failed,
and logs each attempt. Here it sees every request accepted, so that it does none of this, and `outcome` holds
what happened.
"""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import requests

from jaxobs.model.clock import monotonic
from jaxobs_plugins.otel.outcome import Outcome, of_response

if TYPE_CHECKING:
    from collections.abc import Iterator

MAXIMUM_ANSWER_BYTES = 65_536
"""A longer answer is not read: it says how many items were rejected, and why, in some hundred bytes."""

DEFAULT_TIMEOUT = 10.0
"""Seconds; the specification's default for OTEL_EXPORTER_OTLP_TIMEOUT."""


class OneAttemptSession(requests.Session):
    """Used by one thread. `deadline` (monotonic seconds) shortens the timeout that the SDK asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.deadline: float | None = None
        self.outcome: Outcome | None = None
        self.answer = b""

    def request(self, method: str, url: str | bytes, *args: Any, **options: Any) -> requests.Response:
        """Always an accepted response; `outcome`, and the `answer` to what was delivered, tell the truth."""
        timeout = float(options.get("timeout") or DEFAULT_TIMEOUT)
        if self.deadline is not None:
            timeout = max(min(timeout, self.deadline - monotonic()), 0.001)
        options.update(timeout=timeout, allow_redirects=False, stream=True)
        try:
            with super().request(method, url, *args, **options) as response:
                self.answer = _body(response)
                self.outcome = of_response(response.status_code, response.reason, response.headers)
        except (requests.RequestException, OSError, ValueError) as error:
            self.outcome = Outcome("retryable", _root_cause(error))
        return _accepted()


@contextmanager
def muted(exporter: object) -> Iterator[None]:
    """Drop what the SDK's exporter logs on this thread; the application's own use of it logs as ever."""
    own = threading.get_ident()
    logger = logging.getLogger(type(exporter).__module__)

    def from_elsewhere(record: logging.LogRecord) -> bool:
        return record.thread != own

    logger.addFilter(from_elsewhere)
    try:
        yield
    finally:
        logger.removeFilter(from_elsewhere)


def _body(response: requests.Response) -> bytes:
    length = response.headers.get("Content-Length", "")
    return response.content if length.isdigit() and int(length) <= MAXIMUM_ANSWER_BYTES else b""


def _root_cause(error: BaseException) -> str:
    """The innermost error in words: urllib3 and requests wrap it, with addresses of objects."""
    seen = error
    while (inner := seen.__cause__ or seen.__context__) is not None:
        seen = inner
    return f"{type(seen).__name__}: {seen}"


def _accepted() -> requests.Response:
    response = requests.Response()
    response.status_code = 200
    return response
