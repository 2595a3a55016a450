"""Runs each exporter on a thread of its own with a bounded buffer of its own, so that a stuck one holds up no other.

The agent outlives the job by some seconds. So the job waits at its end only for what is likely to arrive: for exporters
whose last delivery succeeded and which are quick.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from jaxobs.model.clock import monotonic
from jaxobs.model.events import Event, Span
from jaxobs.model.snapshot import SnapshotData
from jaxobs.plugin.base import Delivery, Exporter
from jaxobs.plugin.guard import Guard
from jaxobs.plugin.protocol import Agent, Batch

EVENTS_KEPT = 20_000
SPANS_KEPT = 5_000
"""Most events and spans that wait for a slow exporter; beyond these the oldest are dropped and counted."""

QUICK_SECONDS = 0.5
"""Seconds that an export may have taken so far for the end of the job to wait for it."""

STUCK_SECONDS = 10.0
"""Seconds after which an exporter or collector that has not returned is reported as not up, until it returns."""

LAST_TURN_SECONDS: Final = 5.0
"""Least seconds that exporters have for their last turn; after them, or the job's longer patience, the agent ends."""

GRACE_SECONDS: Final = 0.3
"""Most seconds that the job waits for an exporter that need not be awaited, or is not known to deliver: the first request
of a short job to a collector on the same host takes 30 to 100 ms."""

LOOK_SECONDS: Final = 0.05
"""Seconds between two checks whether an exporter is still worth waiting for: a quick one may hang at its end."""


class Exporting:
    """One exporter plugin and its thread. What it is asked may be a property of the plugin's, which may raise."""

    def __init__(self, plugin: Exporter, guard: Guard) -> None:
        self._plugin = plugin
        self.guard = guard
        self._dropped = 0
        self._export_failed = False
        self._snapshot: SnapshotData | None = None
        self._events: deque[Event] = deque(maxlen=EVENTS_KEPT)
        self._spans: deque[Span] = deque(maxlen=SPANS_KEPT)
        self._news = threading.Condition()
        self._stopping: float | None = None
        self._failed = self._idle = self.sends_spans = False
        self.takes_events = bool(plugin.takes_events)
        """Whether it wants events."""
        self._awaited = bool(plugin.awaited)
        self._log: Callable[[str], None] = lambda line: None
        self._thread: threading.Thread | None = None

    def start(self, agent: Agent) -> None:
        self._log = agent.log
        self._thread = threading.Thread(target=self._run, args=(agent,), name="jaxobs-exporter", daemon=True)
        self._thread.start()

    def _delivery(self) -> Delivery:
        """What the plugin reports of its deliveries; an empty `Delivery` where that fails."""
        with contextlib.suppress(Exception):  # called from outside the guard, on any thread
            delivery = self._plugin.delivery()
            if isinstance(delivery, Delivery):
                return delivery
        return Delivery()

    def offer(self, snapshot: SnapshotData, events: Sequence[Event], spans: Sequence[Span]) -> None:
        """Take news without waiting: the snapshot replaces an older one; of events and spans the oldest are lost."""
        if self._idle:
            self.guard.call(lambda: None)  # counts as a success: there is nothing for it to do
            return
        with self._news:
            self._snapshot = snapshot
            given = events if self.takes_events else ()
            if self._failed:  # its thread does not export
                self._dropped += len(given) + len(spans)
                return
            in_all = self._waiting() + len(given) + len(spans)
            self._events.extend(given)
            self._spans.extend(spans)
            self._dropped += in_all - self._waiting()
            self._news.notify()

    def dropped(self) -> tuple[int, str]:
        """Events and spans that are known to be lost so far, and why there may be more (empty if there are not)."""
        own = self._delivery().dropped
        if type(own) is int and own >= 0:
            return self._dropped + own, ""
        if not self._export_failed:
            return self._dropped, ""
        more = "what it was given when export() failed may be lost or not"
        return self._dropped, f"at least {self._dropped}: {more}"

    def worth_waiting_for(self) -> bool:
        """Whether the end of the job should wait for it: its last call succeeded, and the one under way is quick.

        An exporter that reports itself whether it is worth it may take longer, because there may be much to send.
        """
        if not self._awaited or not self.guard.up:
            return False
        own = self._delivery().worth_waiting_for
        return self.guard.waiting_seconds() < QUICK_SECONDS if own is None else bool(own)

    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def undelivered(self) -> str:
        """Describe what it was given and has not delivered; empty where that is nothing, or not known."""
        told, asked = str(self._delivery().undelivered or ""), self.guard.waiting_seconds()
        why = f"no answer for {asked:.1f} s" if asked >= QUICK_SECONDS else self.guard.reason
        waiting = f"{self._waiting()} events and spans wait for it: {why}" if why and self._waiting() else ""
        return "; ".join(filter(None, (told, waiting)))

    def job_ended(self) -> None:
        """Notify the plugin at once that the job has ended, if it has a method for that."""
        if type(self._plugin).job_ended is not Exporter.job_ended:
            # On a thread and under a guard of its own, so it neither delays the last flush nor counts as a success.
            guard = Guard(self.guard.source, self.guard.kind, self._log)
            threading.Thread(
                target=guard.call, args=(self._plugin.job_ended,), name="jaxobs-job-ended", daemon=True
            ).start()

    def finish(self, timeout: float) -> None:
        """Ask the thread to export a last time and end; `join` waits for that."""
        with self._news:
            self._stopping = monotonic() + timeout
            self._news.notify()

    def join(self, timeout: float) -> None:
        if self._thread is not None:
            self._thread.join(timeout)

    def _run(self, agent: Agent) -> None:
        guard = self.guard
        guard.call(self._begin, agent)
        self._failed = guard.failures > 0
        if self._failed:
            # It is not asked to export, and `stop` must not count as a success: it stays down, with its reason.
            guard = Guard(guard.source, guard.kind, agent.log)
        while not self._failed and self._export_next():
            pass
        with self._news:  # what is left: it could not start, or is set aside
            self._dropped += self._waiting()
            self._events.clear()
            self._spans.clear()
        guard.call(self._plugin.stop, max(0.0, (self._stopping or 0.0) - monotonic()))

    def _export_next(self) -> bool:
        """Wait for news, or for the end, and export what there is. Returns whether more may come."""
        with self._news:
            self._news.wait_for(lambda: self._has_work() or self._stopping is not None)
            batch, more = self._take() if self._has_work() else None, self._stopping is None
        if batch is not None:
            failures = self.guard.failures
            self.guard.call(self._plugin.export, batch)
            self._export_failed |= self.guard.failures > failures
            self.guard.failing = str(self._delivery().failing or "")
        return more

    def _begin(self, agent: Agent) -> None:
        self._plugin.start(agent)
        self._idle = not self._plugin.takes_batches
        self.takes_events = not self._idle and bool(self._plugin.takes_events)
        self._awaited = bool(self._plugin.awaited)
        self.sends_spans = bool(self._plugin.sends_spans)

    def _has_work(self) -> bool:
        """Whether there is news to export now. While the plugin is set aside news waits, as it does for a slow one."""
        return self._snapshot is not None and not self.guard.set_aside

    def _waiting(self) -> int:
        return len(self._events) + len(self._spans)

    def _take(self) -> Batch:
        assert self._snapshot is not None
        batch = Batch(self._snapshot, tuple(self._events), tuple(self._spans))
        self._snapshot = None
        self._events.clear()
        self._spans.clear()
        return batch


def await_deliveries(exporters: Sequence[Exporting], began: float, patience: float) -> dict[str, str]:
    """Wait, as the job does, for the exporters that are worth it, which were asked to finish at `began`.

    Returns a description of what is not delivered, by exporter.
    """
    for exporter in exporters:
        while exporter.is_running():
            most = patience if exporter.worth_waiting_for() else min(patience, GRACE_SECONDS)
            left = began + most - monotonic()
            if left <= 0:
                break
            exporter.join(min(left, LOOK_SECONDS))
    return {exporter.guard.source: what for exporter in exporters if (what := exporter.undelivered())}
