"""Each exporter on a thread of its own with a bounded buffer of its own: one that is stuck starves no other."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from jaxobs.model.events import Event
from jaxobs.model.snapshot import Snapshot
from jaxobs.model.spans import Span
from jaxobs.plugin.guard import Guard
from jaxobs.plugin.protocol import Agent, Batch

EVENTS_KEPT = 20_000
SPANS_KEPT = 5_000
"""What waits for an exporter that is slow; its oldest are dropped and counted."""

STUCK_SECONDS = 10.0
"""An exporter or a collector that has not returned for so long is reported as not up, until it returns."""


class Exporting:
    """One exporter plugin and its thread."""

    def __init__(self, plugin: Any, guard: Guard) -> None:
        self._plugin = plugin
        self.guard = guard
        self.dropped = 0
        self._snapshot: Snapshot | None = None
        self._events: deque[Event] = deque(maxlen=EVENTS_KEPT)
        self._spans: deque[Span] = deque(maxlen=SPANS_KEPT)
        self._news = threading.Condition()
        self._stopping: float | None = None
        self._failed = False
        self._log: Callable[[str], None] = lambda line: None
        self._thread: threading.Thread | None = None

    def start(self, agent: Agent) -> None:
        self._log = agent.log
        self._thread = threading.Thread(target=self._run, args=(agent,), name="jaxobs-exporter", daemon=True)
        self._thread.start()

    def offer(self, snapshot: Snapshot, events: Iterable[Event], spans: Iterable[Span]) -> None:
        """Never waits. The snapshot is the newest only; events and spans lose their oldest."""
        with self._news:
            self._snapshot = snapshot
            if self._failed:
                return  # nobody would take it
            before = len(self._events) + len(self._spans)
            added = 0
            for event in events:
                self._events.append(event)
                added += 1
            for span in spans:
                self._spans.append(span)
                added += 1
            self.dropped += before + added - len(self._events) - len(self._spans)
            self._news.notify()

    def job_ended(self) -> None:
        """Tell a plugin that wants to know it at once."""
        told = getattr(self._plugin, "job_ended", None)
        if callable(told):
            # On a thread and under a guard of its own: it neither keeps the last flush waiting nor counts as a success.
            guard = Guard(self.guard.source, self.guard.kind, self._log)
            threading.Thread(target=guard.call, args=(told,), name="jaxobs-job-ended", daemon=True).start()

    def finish(self, timeout: float) -> None:
        """Ask for a last turn and the end; `join` waits for it."""
        with self._news:
            self._stopping = time.monotonic() + timeout
            self._news.notify()

    def join(self, timeout: float) -> None:
        if self._thread is not None:
            self._thread.join(timeout)

    def _run(self, agent: Agent) -> None:
        self.guard.call(self._plugin.start, agent)
        # A plugin that could not start is not asked to export: it has said why.
        self._failed = self.guard.failures > 0
        while not self._failed:
            with self._news:
                self._news.wait_for(lambda: self._snapshot is not None or self._stopping is not None)
                batch = self._take()
                stopping = self._stopping
            if batch is not None:
                self.guard.call(self._plugin.export, batch)
            if stopping is not None:
                break
        stopping = self._stopping
        # Having let go of everything is no success of a plugin that could not start: it stays down, with its reason.
        guard = Guard(self.guard.source, self.guard.kind, agent.log) if self._failed else self.guard
        guard.call(self._plugin.stop, max(0.0, stopping - time.monotonic()) if stopping is not None else 0.0)

    def _take(self) -> Batch | None:
        if self._snapshot is None:
            return None
        batch = Batch(self._snapshot, tuple(self._events), tuple(self._spans))
        self._snapshot = None
        self._events.clear()
        self._spans.clear()
        return batch
