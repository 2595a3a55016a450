"""Posts one request to one endpoint in one attempt; the worker decides whether to try again.

The SDK's encoders make the message. It is posted here and not by the SDK's exporters, which sleep between attempts by
rules of their own and do not report why a request failed.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import requests
from google.protobuf.message import DecodeError

from jaxobs.model.clock import monotonic
from jaxobs.vocabulary.text import MASK, masked
from jaxobs_plugins.otel.environment import Sending
from jaxobs_plugins.otel.outcome import Outcome, of_response

if TYPE_CHECKING:
    from google.protobuf.message import Message

MAXIMUM_ANSWER_BYTES = 65_536
"""Longest answer that is read; one that says how many items were rejected, and why, has some hundred bytes."""

MAXIMUM_REQUEST_BYTES = 64 * 2**20
"""Largest request before compression, which is also the default of the SDK's own exporters (in 1.45)."""

SHORTEST_SECONDS = 0.001
"""Shortest timeout of a request, because `requests` refuses one of 0."""

COMPRESSIONS: Mapping[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "deflate": zlib.compress}


class Connection:
    """Posts to an endpoint, on one thread. `rejected` reads from an answer how many items the receiver did not take."""

    def __init__(self, sending: Sending, rejected: Callable[[bytes], int]) -> None:
        self._sending = sending
        self._rejected = rejected
        self._session = requests.Session()
        self._session.headers.update(sending.headers)

    def post(self, message: Message, deadline: float | None) -> Outcome:
        """Make one attempt, which ends by `deadline` (monotonic seconds)."""
        data = message.SerializeToString()
        if len(data) > MAXIMUM_REQUEST_BYTES:
            return Outcome("split", f"a request of {len(data) >> 20} MiB is too large")
        sending, timeout = self._sending, self._sending.timeout
        if deadline is not None:
            timeout = max(min(timeout, deadline - monotonic()), SHORTEST_SECONDS)
        compress = COMPRESSIONS.get(sending.compression)
        try:
            with self._session.post(
                sending.url,
                data if compress is None else compress(data),
                timeout=timeout,
                verify=sending.certificate or True,
                cert=sending.client_certificate,
                allow_redirects=False,
                stream=True,
            ) as response:
                answer = _body(response)
                outcome = of_response(response.status_code, response.reason, response.headers)
        except Exception as error:  # noqa: BLE001  # a malformed proxy makes `requests` raise a TypeError, say
            return Outcome("retryable", self._without_secrets(_root_cause(error)))
        if outcome.verdict != "delivered":
            return replace(outcome, reason=self._without_secrets(outcome.reason))
        try:
            return replace(outcome, rejected=self._rejected(answer))
        except DecodeError:  # accepted by something that does not answer in OTLP
            return outcome

    def close(self) -> None:
        self._session.close()

    def _without_secrets(self, reason: str) -> str:
        """A reason without what the endpoint, a proxy or the headers hold: libraries quote what they refuse."""
        for secret in self._sending.secrets():
            reason = reason.replace(secret, MASK)
        return masked("", reason)


def _body(response: requests.Response) -> bytes:
    length = response.headers.get("Content-Length", "")
    return response.content if length.isdigit() and int(length) <= MAXIMUM_ANSWER_BYTES else b""


def _root_cause(error: BaseException) -> str:
    """The innermost error as text; urllib3 and requests wrap it in messages with the addresses of objects."""
    seen = error
    while (inner := seen.__cause__ or seen.__context__) is not None:
        seen = inner
    return f"{type(seen).__name__}: {seen}"
