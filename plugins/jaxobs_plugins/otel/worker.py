"""The thread that delivers one signal: it retries after pauses, splits requests, gives up, and ends in time."""

from __future__ import annotations

import random
import threading
from typing import Generic

from opentelemetry.instrumentation.utils import suppress_instrumentation

from jaxobs.model.clock import monotonic, sleep
from jaxobs.plugin.protocol import Batch
from jaxobs_plugins.otel.outcome import Outcome
from jaxobs_plugins.otel.signal import Payload, Signal

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
"""Seconds between attempts, doubled from the first to the longest. OTLP asks for exponential growth and names
no figures; the longest is the OpenTelemetry Collector's default (`retry_on_failure.max_interval`)."""

QUICK_SECONDS = 0.5
"""Longest answer time of a receiver's last request for which the end of a job waits for that receiver."""

GIVE_UP_SECONDS = 300.0
"""Seconds after its first attempt at which a payload is dropped: the OpenTelemetry Collector's `max_elapsed_time`."""


class Worker(Generic[Payload]):
    """Delivers one signal on a daemon thread, which never uses JAX and may be left behind with a silent receiver."""

    def __init__(self, signal: Signal[Payload]) -> None:
        self.signal = signal
        self._lock = threading.Lock()
        self._dropped = 0
        self._failure = self._last_failure = ""
        self.dropped_because = ""
        """Why items were last dropped; empty where none were."""
        self._delivered_any = False
        self._in_flight = 0
        self._asked_at: float | None = None
        self._delivers = False
        self._deadline: float | None = None
        self._closing = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"jaxobs-otel-{signal.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def offer(self, batch: Batch) -> None:
        self._count_dropped(self.signal.offer(batch), "more came than may wait")
        if self.signal.full():
            self._wake.set()

    def news(self) -> tuple[int, str]:
        """The items dropped since the last call, and why a request last failed since then (empty: none did)."""
        with self._lock:
            news = self._dropped, self._failure
            self._dropped, self._failure = 0, ""
        return news

    @property
    def delivers(self) -> bool:
        """Whether the last request was accepted within QUICK_SECONDS, and any under way has not lasted longer."""
        asked = self._asked_at
        return self._delivers and (asked is None or monotonic() - asked < QUICK_SECONDS)

    def undelivered(self) -> tuple[int, str]:
        """The number of items that wait or are in flight, and why they have not been delivered."""
        asked, items = self._asked_at, self._in_flight + self.signal.waiting()
        if asked is not None:
            return items, f"no answer for {monotonic() - asked:.1f} s"
        since = "they came after the last request" if self._delivered_any else "nothing was sent yet"
        return items, self._last_failure or since

    def close(self, deadline: float) -> None:
        """Send what waits, and end by `deadline` (monotonic seconds). Returns at once; `join` waits."""
        self._deadline = deadline
        self._closing.set()
        self._wake.set()

    def join(self) -> None:
        """Wait until the deadline at most; items that are undelivered by then count as dropped."""
        assert self._deadline is not None
        self._thread.join(max(self._deadline - monotonic(), 0.0))
        undelivered = self._in_flight + self.signal.waiting()
        if undelivered:
            why = self._last_failure
            self._fail("the end of the job came first" + (f", after a failure: {why}" if why else ""))
            self._count_dropped(undelivered, self._last_failure)

    def _run(self) -> None:
        with suppress_instrumentation():  # our requests are no part of the application's traces
            more = True
            while more and not self._closing.is_set():
                self._wake.wait(self.signal.interval)
                self._wake.clear()
                more = self._drain()
            if more:
                self._drain()
        self.signal.close()

    def _drain(self) -> bool:
        """Deliver what waits. False where time ran out and nothing more can be delivered."""
        while not self._out_of_time():
            if (payload := self.signal.take()) is None:
                return True
            if not self._deliver(payload):
                return False
        return False

    def _deliver(self, payload: Payload) -> bool:
        """Deliver a payload or give it up. False where time ran out before; the payload then stays in flight."""
        pending = [payload]
        first_attempt, attempt = monotonic(), 0
        while pending:
            self._in_flight = sum(map(self.signal.size, pending))
            outcome = self._attempt(pending[-1])
            if outcome.verdict == "delivered":
                pending.pop()
                attempt, self._last_failure, self._delivered_any = 0, "", True
                self._count_dropped(outcome.rejected, "the receiver did not take them")
                continue
            self._fail(outcome.reason)
            if outcome.verdict == "retryable" and monotonic() - first_attempt < GIVE_UP_SECONDS:
                if not self._pause(outcome, attempt):
                    return False
                attempt += 1
                continue
            given_up = pending.pop()
            halves = self.signal.halves(given_up) if outcome.verdict == "split" else ()
            pending += reversed(halves)
            self._count_dropped(0 if halves else self.signal.size(given_up), outcome.reason)
        self._in_flight = 0
        return True

    def _attempt(self, payload: Payload) -> Outcome:
        self._asked_at = began = monotonic()
        try:
            outcome = self.signal.send(payload, self._deadline)
        except Exception as error:  # noqa: BLE001  # one item that cannot be sent must not end all sending
            outcome = Outcome("split", f"{type(error).__name__}: {error}")
        self._delivers = outcome.verdict == "delivered" and monotonic() - began < QUICK_SECONDS
        self._asked_at = None
        return outcome

    def _pause(self, outcome: Outcome, attempt: int) -> bool:
        """Wait before the next attempt; False where there will be none.

        When the worker is closed, our own pause is cut short for one last attempt; a
        time that the receiver named is kept.
        """
        delay = min(FIRST_PAUSE * 2.0**attempt, LONGEST_PAUSE) * random.uniform(0.8, 1.0)  # noqa: S311  # no secret
        if outcome.retry_after is not None:
            delay = max(outcome.retry_after, FIRST_PAUSE)
        resume = monotonic() + delay
        was_closing = self._closing.is_set()
        if not was_closing and not self._closing.wait(delay):
            return True
        if outcome.retry_after is None:
            return not was_closing
        if self._deadline is None or resume >= self._deadline:
            return False
        sleep(max(resume - monotonic(), 0.0))
        return True

    def _out_of_time(self) -> bool:
        return self._deadline is not None and monotonic() >= self._deadline

    def _count_dropped(self, items: int, why: str) -> None:
        with self._lock:
            self._dropped += items
            self.dropped_because = why if items else self.dropped_because

    def _fail(self, reason: str) -> None:
        with self._lock:
            self._failure = self._last_failure = reason
