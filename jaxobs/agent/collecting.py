"""Runs each collector on a thread of its own, at its interval: one that hangs makes only its own values stale."""

from __future__ import annotations

import threading
from collections.abc import Callable

from jaxobs.model.events import Measured
from jaxobs.plugin.base import Collector
from jaxobs.plugin.guard import Guard
from jaxobs.plugin.protocol import Agent


class Collecting:
    """One collector plugin and its thread."""

    def __init__(self, plugin: Collector, guard: Guard, received: Callable[[list[Measured]], None]) -> None:
        self._plugin = plugin
        self.guard = guard
        self._received = received
        self._stop = threading.Event()
        self._pause = Collector.interval
        self._thread: threading.Thread | None = None

    def start(self, agent: Agent) -> None:
        self._thread = threading.Thread(target=self._run, args=(agent,), name="jaxobs-collector", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def _run(self, agent: Agent) -> None:
        self.guard.call(self._plugin.start, agent)
        if self.guard.failures:
            return  # it could not start; the guard has the reason
        while not self._stop.is_set():
            values = self.guard.call(self._collect)
            if values:
                self._received(values)
            self._stop.wait(self._pause)
        self.guard.call(self._plugin.stop)

    def _collect(self) -> list[Measured]:
        self._pause = float(self._plugin.interval)  # under the guard: it may be a property of the plugin's
        values = list(self._plugin.collect())
        self.guard.idle_reason = str(self._plugin.reason)
        return values
