"""Delivers one signal over OTLP/HTTP: one attempt after the other, with pauses, and in time.

The SDK's encoders make the messages. They are posted here and not by the SDK's exporters, which sleep between attempts
by rules of their own and do not report why a request failed. The rules are those of
https://opentelemetry.io/docs/specs/otlp/#otlphttp-response.
"""

from __future__ import annotations

import gzip
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import requests
from google.protobuf.message import DecodeError
from opentelemetry.instrumentation.utils import suppress_instrumentation

from jaxobs.model.clock import monotonic
from jaxobs.plugin.protocol import Batch
from jaxobs.vocabulary.text import MASK, masked
from jaxobs_plugins.otel.environment import Sending

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from jaxobs_plugins.otel.encoding import Signal

RETRYABLE = frozenset({429, 502, 503, 504})
MAX_RETRY_AFTER = 3_600.0
"""Longest wait in seconds that is granted to a receiver. The specification sets no limit."""
MAX_ANSWER_BYTES = 65_536
"""Longest answer that is read; one that says how many items were rejected, and why, has some hundred bytes."""
MIN_TIMEOUT = 0.001
"""Shortest timeout of a request in seconds, because `requests` refuses one of 0."""
FIRST_PAUSE = 1.0
MAX_PAUSE = 30.0
"""Seconds between attempts, doubled from the first to the longest. OTLP asks for exponential growth and names
no figures; the longest is the OpenTelemetry Collector's default (`retry_on_failure.max_interval`)."""
QUICK_SECONDS = 0.5
"""Longest answer time of a receiver's last request for which the end of a job waits for that receiver."""
GIVE_UP_SECONDS = 300.0
"""Seconds after its first attempt at which a payload is dropped: the OpenTelemetry Collector's `max_elapsed_time`."""

Verdict = Literal["delivered", "retryable", "refused"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one request.

    `retry_after` is in seconds, None if the receiver named no time. `rejected` counts items of a delivered request that
    the receiver did not take.
    """

    verdict: Verdict
    reason: str = ""
    retry_after: float | None = None
    rejected: int = 0


class Connection:
    """Posts requests to an endpoint, in one attempt each."""

    def __init__(self, sending: Sending) -> None:
        self._sending = sending
        self._session = requests.Session()
        self._session.headers.update(sending.headers)

    def post(self, message: Message, deadline: float | None) -> tuple[Outcome, bytes]:
        """The outcome of one attempt, which ends by `deadline` (monotonic seconds), and the answer's body."""
        data = message.SerializeToString()
        sending, timeout = self._sending, self._sending.timeout
        if deadline is not None:
            timeout = max(min(timeout, deadline - monotonic()), MIN_TIMEOUT)
        try:
            with self._session.post(
                sending.url,
                gzip.compress(data) if sending.compression == "gzip" else data,
                timeout=timeout,
                verify=sending.certificate or True,
                cert=sending.client_certificate,
                allow_redirects=False,
                stream=True,
            ) as response:
                # An answer of neither kind ends with the connection, which may stay open.
                is_framed = response.raw.chunked or "Content-Length" in response.headers
                answer = response.raw.read(MAX_ANSWER_BYTES, decode_content=True) if is_framed else b""
                outcome = outcome_of(response.status_code, response.reason, response.headers)
        except Exception as error:  # noqa: BLE001  # a malformed proxy makes `requests` raise a TypeError, say
            outcome, answer = Outcome("retryable", _root_cause(error)), b""
        return replace(outcome, reason=self._without_secrets(outcome.reason)), answer

    def close(self) -> None:
        self._session.close()

    def _without_secrets(self, reason: str) -> str:
        """A reason without what the endpoint, a proxy or the headers hold: libraries quote what they refuse."""
        for secret in self._sending.secrets():
            reason = reason.replace(secret, MASK)
        return masked("", reason)


def outcome_of(status: int, phrase: str, headers: Mapping[str, str]) -> Outcome:
    """The outcome of a request that was answered. A redirect is refused: data goes where the user said."""
    if 200 <= status < 300:
        return Outcome("delivered")
    reason = f"HTTP {status} {phrase}".strip()
    if status in RETRYABLE:
        return Outcome("retryable", reason, _retry_after(headers.get("Retry-After", "")))
    return Outcome("refused", reason)


def _retry_after(text: str) -> float | None:
    """Seconds to wait by a `Retry-After` header that holds a number; None by any other."""
    try:
        delay = float(text)
    except ValueError:
        return None
    return min(max(delay, 0.0), MAX_RETRY_AFTER) if math.isfinite(delay) else None


def _root_cause(error: BaseException) -> str:
    """The innermost error as text; urllib3 and requests wrap it in messages with the addresses of objects."""
    seen = error
    while (inner := seen.__cause__ or seen.__context__) is not None:
        seen = inner
    return f"{type(seen).__name__}: {seen}"


class Sender:
    """Sends one signal, a turn at a time, on the thread of the exporter."""

    def __init__(self, signal: Signal, endpoint: str, sending: Sending) -> None:
        """`endpoint` is what messages show."""
        self.signal = signal
        self.endpoint = endpoint
        self.dropped = self._told = 0
        """Items that were dropped so far, and those of which `news` told."""
        self._dropped_because = self._failure = ""
        self._failed = self._delivered_any = False
        self._connection = Connection(sending)
        self._pending: tuple[Any, ...] = ()
        """Items of a request that failed, which is made again."""
        self._attempts = 0
        self._first_attempt = 0.0
        self._due = 0.0
        self._is_held = False
        """Whether the receiver named the time until the next attempt."""
        self._asked_at: float | None = None
        self._was_quick = False

    def offer(self, batch: Batch) -> None:
        self._drop(self.signal.offer(batch), "more came than may wait")

    def turn(self, deadline: float | None = None) -> None:
        """Send what waits where it is time for that. With a deadline (monotonic seconds): a last time."""
        if monotonic() < self._due and (deadline is None or self._is_held):
            return
        self._due, self._is_held = monotonic() + self.signal.interval, False
        with suppress_instrumentation():  # our requests are no part of the application's traces
            while items := self._pending or self.signal.take():
                self._pending = items
                if (deadline is not None and monotonic() >= deadline) or not self._deliver(items, deadline):
                    return
                self._pending = ()

    def close(self) -> None:
        """Count what is undelivered as dropped."""
        self._connection.close()
        if undelivered := self._undelivered():
            why = self._failure
            self._fail("the end of the job came first" + (f", after a failure: {why}" if why else ""))
            self._drop(undelivered, self._failure)
        self._pending = ()
        self.signal.clear()

    def news(self) -> tuple[int, str]:
        """The items dropped since the last call, and why a request last failed since then (empty: none did)."""
        news = self.dropped - self._told, self._failure if self._failed else ""
        self._told, self._failed = self.dropped, False
        return news

    @property
    def delivers(self) -> bool:
        """Whether the last request was accepted within QUICK_SECONDS, and any under way has not lasted longer."""
        asked = self._asked_at
        return self._was_quick and (asked is None or monotonic() - asked < QUICK_SECONDS)

    def undelivered(self) -> str:
        """What waits or was dropped, in words; empty where all was delivered."""
        asked, waiting, items = self._asked_at, self._undelivered(), self.signal.item_name
        since = "they came after the last request" if self._delivered_any else "nothing was sent yet"
        why = self._failure or since if asked is None else f"no answer for {monotonic() - asked:.1f} s"
        parts = [f"{waiting} {items} wait ({why})"] if waiting else []
        parts += [f"{self.dropped} {items} were dropped ({self._dropped_because})"] if self.dropped else []
        return f"{self.endpoint}: {', '.join(parts)}" if parts else ""

    def _undelivered(self) -> int:
        return self.signal.size(self._pending) + self.signal.waiting()

    def _deliver(self, items: tuple[Any, ...], deadline: float | None) -> bool:
        """Deliver items or give them up. False if they are to be sent again, in a later turn."""
        began = monotonic()
        self._first_attempt = self._first_attempt if self._attempts else began
        outcome = self._attempt(items, deadline)
        if outcome.verdict == "delivered":
            self._failure, self._delivered_any = "", True
            self._drop(outcome.rejected, "the receiver did not take them")
        else:
            self._fail(outcome.reason)
            if outcome.verdict == "retryable" and began - self._first_attempt < GIVE_UP_SECONDS:
                delay = min(FIRST_PAUSE * 2.0**self._attempts, MAX_PAUSE) * random.uniform(0.8, 1.0)  # noqa: S311  # no secret
                self._is_held = outcome.retry_after is not None
                self._due = monotonic() + max(outcome.retry_after or delay, FIRST_PAUSE)
                self._attempts += 1
                return False
            self._drop(self.signal.size(items), outcome.reason)
        self._attempts = 0
        return True

    def _attempt(self, items: tuple[Any, ...], deadline: float | None) -> Outcome:
        self._asked_at = began = monotonic()
        try:
            outcome, answer = self._connection.post(self.signal.encode(items), deadline)
            if outcome.verdict == "delivered":
                outcome = replace(outcome, rejected=self.signal.rejected(answer))
        except DecodeError:  # accepted by something that does not answer in OTLP
            outcome = Outcome("delivered")
        except Exception as error:  # noqa: BLE001  # one item that cannot be sent must not end all sending
            outcome = Outcome("refused", f"{type(error).__name__}: {error}")
        self._was_quick = outcome.verdict == "delivered" and monotonic() - began < QUICK_SECONDS
        self._asked_at = None
        return outcome

    def _drop(self, items: int, why: str) -> None:
        self.dropped += items
        self._dropped_because = why if items else self._dropped_because

    def _fail(self, reason: str) -> None:
        self._failure, self._failed = reason, True
