"""Delivers one signal over OTLP/HTTP on a thread: one attempt after the other, with pauses, in parts, and in time.

The SDK's encoders make the messages. They are posted here and not by the SDK's exporters, which sleep between attempts
by rules of their own and do not report why a request failed. The rules are those of
https://opentelemetry.io/docs/specs/otlp/#otlphttp-response.
"""

from __future__ import annotations

import gzip
import math
import random
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import requests
from google.protobuf.message import DecodeError
from opentelemetry.instrumentation.utils import suppress_instrumentation

from jaxobs.model.clock import monotonic, sleep
from jaxobs.plugin.protocol import Batch
from jaxobs.vocabulary.text import MASK, masked
from jaxobs_plugins.otel.environment import Sending

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from jaxobs_plugins.otel.encoding import Signal

RETRYABLE = frozenset({429, 502, 503, 504})
PAYLOAD_TOO_LARGE = 413
MAX_RETRY_AFTER = 3_600.0
"""Longest wait in seconds that is granted to a receiver. The specification sets no limit."""
MAX_ANSWER_BYTES = 65_536
"""Longest answer that is read; one that says how many items were rejected, and why, has some hundred bytes."""
MAX_REASON = 300
"""Longest reason that a message gives, in characters: a receiver's answer may be long."""
MAX_REQUEST_BYTES = 64 * 2**20
"""Largest request before compression, which is also the default of the SDK's own exporters (in 1.45)."""
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

_READABLE = re.compile(rb"[\x20-\x7e]{3,}")
"""What can be read in an answer, whether it is text, JSON or a protobuf `google.rpc.Status`."""

Verdict = Literal["delivered", "retryable", "split", "refused"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one request.

    The verdict `split` means that the receiver may take the request in parts. `retry_after` is in seconds, None if the
    receiver named no time. `rejected` counts items of a delivered request that the receiver did not take.
    """

    verdict: Verdict
    reason: str = ""
    retry_after: float | None = None
    rejected: int = 0


class Connection:
    """Posts requests to an endpoint, on one thread, in one attempt each."""

    def __init__(self, sending: Sending) -> None:
        self._sending = sending
        self._session = requests.Session()
        self._session.headers.update(sending.headers)
        # None lets `requests` put what ~/.netrc has for the host in the place of the header.
        self._auth = (lambda request: request) if "authorization" in sending.headers else None

    def post(self, message: Message, deadline: float | None) -> tuple[Outcome, bytes]:
        """The outcome of one attempt, which ends by `deadline` (monotonic seconds), and the answer's body."""
        data = message.SerializeToString()
        if len(data) > MAX_REQUEST_BYTES:
            return Outcome("split", f"a request of {len(data) >> 20} MiB is too large"), b""
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
                auth=self._auth,
                allow_redirects=False,
                stream=True,
            ) as response:
                # An answer of neither kind ends with the connection, which may stay open.
                is_framed = response.raw.chunked or "Content-Length" in response.headers
                answer = response.raw.read(MAX_ANSWER_BYTES, decode_content=True) if is_framed else b""
                outcome = outcome_of(response.status_code, response.reason, response.headers, answer)
        except Exception as error:  # noqa: BLE001  # a malformed proxy makes `requests` raise a TypeError, say
            outcome, answer = Outcome("retryable", _root_cause(error)), b""
        return replace(outcome, reason=self.without_secrets(outcome.reason)), answer

    def close(self) -> None:
        self._session.close()

    def without_secrets(self, reason: str) -> str:
        """A reason without what the endpoint, a proxy or the headers hold: libraries and receivers may quote it."""
        for secret in self._sending.secrets():
            reason = reason.replace(secret, MASK)
        return masked("", reason)[:MAX_REASON]


def outcome_of(status: int, phrase: str, headers: Mapping[str, str], answer: bytes = b"") -> Outcome:
    """The outcome of a request that was answered. A redirect is refused: data goes where the user said.

    What the answer says is part of the reason, unless it is a web page, as of a proxy.
    """
    if 200 <= status < 300:
        return Outcome("delivered")
    reason = f"HTTP {status} {phrase}".strip()
    if answer and "html" not in headers.get("Content-Type", ""):
        reason = f"{reason}: {b' '.join(_READABLE.findall(answer)).decode()}".removesuffix(": ")
    if status in RETRYABLE:
        return Outcome("retryable", reason, _retry_after(headers.get("Retry-After", "")))
    return Outcome("split" if status == PAYLOAD_TOO_LARGE else "refused", reason)


def _retry_after(text: str) -> float | None:
    """Seconds to wait by a `Retry-After` header that holds a number; None by any other."""
    try:
        delay = float(text)
    except ValueError:
        return None
    return min(max(delay, 0.0), MAX_RETRY_AFTER) if math.isfinite(delay) else None


def _root_cause(error: BaseException) -> str:
    """The innermost error as text; urllib3 and requests wrap it in messages with the addresses of objects."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return f"{type(error).__name__}: {error}"


class Worker:
    """Delivers one signal on a daemon thread, which never uses JAX and may be left behind with a silent receiver."""

    def __init__(self, signal: Signal, endpoint: str, sending: Sending) -> None:
        """`endpoint` is what messages show."""
        self.signal = signal
        self.endpoint = endpoint
        self._connection = Connection(sending)
        self._lock = threading.Lock()
        self._dropped = self.dropped = 0
        """Items dropped since `news` was last asked, and before that."""
        self.dropped_because = ""
        """Why items were last dropped; empty if none were."""
        self._failure = self.last_failure = ""
        """Why a request failed since `news` was last asked, and why the last one did; empty if it did not."""
        self._delivered_any = False
        self._in_flight = 0
        self._asked_at: float | None = None
        self._was_quick = False
        self._deadline: float | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"jaxobs-otel-{signal.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def offer(self, batch: Batch) -> None:
        self._count_dropped(self.signal.offer(batch), "more came than may wait")

    def news(self) -> tuple[int, str]:
        """The items dropped since the last call, and why a request last failed since then (empty: none did)."""
        with self._lock:
            news = self._dropped, self._failure
            self.dropped += self._dropped
            self._dropped, self._failure = 0, ""
        return news

    @property
    def delivers(self) -> bool:
        """Whether the last request was accepted within QUICK_SECONDS, and any under way has not lasted longer."""
        asked = self._asked_at
        return self._was_quick and (asked is None or monotonic() - asked < QUICK_SECONDS)

    def undelivered(self) -> tuple[int, str]:
        """The number of items that wait or are in flight, and why they have not been delivered."""
        asked, items = self._asked_at, self._in_flight + self.signal.waiting()
        if asked is not None:
            return items, f"no answer for {monotonic() - asked:.1f} s"
        since = "they came after the last request" if self._delivered_any else "nothing was sent yet"
        return items, self.last_failure or since

    def close(self, deadline: float) -> None:
        """Send what waits, and end by `deadline` (monotonic seconds). Returns at once; `join` waits."""
        self._deadline = deadline
        self._closing.set()

    def join(self) -> None:
        """Wait until the deadline at most; items that are undelivered by then count as dropped."""
        assert self._deadline is not None
        self._thread.join(max(self._deadline - monotonic(), 0.0))
        undelivered = self._in_flight + self.signal.waiting()
        if undelivered:
            after = f", after a failure: {self.last_failure}" if self.last_failure else ""
            self._fail(f"the end of the job came first{after}")
            self._count_dropped(undelivered, self.last_failure)

    def _run(self) -> None:
        with suppress_instrumentation():  # our requests are no part of the application's traces
            more = True
            while more and not self._closing.wait(self.signal.interval):
                more = self._drain()
            if more:
                self._drain()
        self._connection.close()

    def _drain(self) -> bool:
        """Deliver what waits. False if time ran out and nothing more can be delivered."""
        while self._deadline is None or monotonic() < self._deadline:
            items = self.signal.take()
            if not items:
                return True
            if not self._deliver(items):
                return False
        return False

    def _deliver(self, items: tuple[Any, ...]) -> bool:
        """Deliver items or give them up. False if time ran out before; they then stay in flight."""
        pending = [items]
        first_attempt, attempt = monotonic(), 0
        while pending:
            self._in_flight = sum(map(self.signal.size, pending))
            outcome = self._attempt(pending[-1])
            if outcome.verdict == "delivered":
                pending.pop()
                attempt, self.last_failure, self._delivered_any = 0, "", True
                self._count_dropped(outcome.rejected, outcome.reason or "the receiver did not take them")
                continue
            self._fail(outcome.reason)
            if outcome.verdict == "retryable" and monotonic() - first_attempt < GIVE_UP_SECONDS:
                if not self._pause(outcome.retry_after, attempt):
                    return False
                attempt += 1
                continue
            given_up = pending.pop()
            if outcome.verdict == "split" and len(given_up) > 1:
                middle = len(given_up) // 2
                pending += [given_up[middle:], given_up[:middle]]
            else:
                self._count_dropped(self.signal.size(given_up), outcome.reason)
        self._in_flight = 0
        return True

    def _attempt(self, items: tuple[Any, ...]) -> Outcome:
        self._asked_at = began = monotonic()
        try:
            outcome, answer = self._connection.post(self.signal.encode(items), self._deadline)
            if outcome.verdict == "delivered":
                rejected, why = self.signal.rejected(answer)
                outcome = replace(outcome, rejected=rejected, reason=self._connection.without_secrets(why))
        except DecodeError:  # accepted by something that does not answer in OTLP
            outcome = Outcome("delivered")
        except Exception as error:  # noqa: BLE001  # one item that cannot be sent must not end all sending
            outcome = Outcome("split", f"{type(error).__name__}: {error}")
        self._was_quick = outcome.verdict == "delivered" and monotonic() - began < QUICK_SECONDS
        self._asked_at = None
        return outcome

    def _pause(self, retry_after: float | None, attempt: int) -> bool:
        """Wait before the next attempt; False if there will be none.

        When the worker is closed, our own pause is cut short for one last attempt; a time that the receiver named is
        kept.
        """
        delay = min(FIRST_PAUSE * 2.0**attempt, MAX_PAUSE) * random.uniform(0.8, 1.0)  # noqa: S311  # no secret
        if retry_after is not None:
            delay = max(retry_after, FIRST_PAUSE)
        resume = monotonic() + delay
        was_closing = self._closing.is_set()
        if not was_closing and not self._closing.wait(delay):
            return True
        if retry_after is None:
            return not was_closing
        if self._deadline is None or resume >= self._deadline:
            return False
        sleep(max(resume - monotonic(), 0.0))
        return True

    def _count_dropped(self, items: int, why: str) -> None:
        with self._lock:
            self._dropped += items
            self.dropped_because = why if items else self.dropped_because

    def _fail(self, reason: str) -> None:
        with self._lock:
            self._failure = self.last_failure = reason
