"""Finds the agent's plugins and declares their metrics, and runs collectors: one that fails or hangs affects no other."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, SupportsFloat

from jaxobs.agent.exporting import Exporting
from jaxobs.model.events import Measured
from jaxobs.model.metrics import Catalogue, DeviceReading
from jaxobs.plugin.base import Collector
from jaxobs.plugin.discovery import COLLECTORS, EXPORTERS, PROBES, Found, discover
from jaxobs.plugin.guard import Guard
from jaxobs.plugin.protocol import Agent
from jaxobs.plugin.settings import unknown_variables


@dataclass(slots=True)
class Plugins:
    """The plugins found. Probes run in the job: only their metrics are declared here."""

    guards: list[Guard] = field(default_factory=list)
    """Guards of all collectors and exporters, working or not."""
    exporters: list[Exporting] = field(default_factory=list)
    collectors: list[Collecting] = field(default_factory=list)
    readings: list[DeviceReading] = field(default_factory=list)
    undeclared: dict[str, str] = field(default_factory=dict)
    """Probes whose metrics could not be declared, with the reason: their measurements are refused."""

    @property
    def events_are_taken(self) -> bool:
        return any(exporter.takes_events for exporter in self.exporters)

    def declare(self, found: Found, catalogue: Catalogue) -> bool:
        """Declare a plugin's metrics. Raises ValueError if one contradicts another, or a reading is of none of them."""
        metrics = found.plugin.metrics if found.plugin is not None else ()
        catalogue.declare(metrics, f"{found.group}:{found.name}")
        readings = list(found.plugin.device_readings) if isinstance(found.plugin, Collector) else []
        for reading in readings:
            if reading.metric not in metrics:
                raise ValueError(f"device_readings: {reading.metric.name} is none of its metrics")
        self.readings += readings
        return True


def load_plugins(
    catalogue: Catalogue,
    settings: Collection[str],
    log: Callable[[str], None],
    collected: Callable[[list[Measured]], None],
) -> Plugins:
    """Load all installed plugins and add their metrics to `catalogue`; `collected` takes what collectors measure.

    `settings` are the names of jaxobs's own settings: other variables that begin with a plugin's name are the plugin's.
    """
    plugins = Plugins()
    every = (*discover(PROBES), *discover(COLLECTORS), *discover(EXPORTERS))
    own_settings = [(found.name, found.plugin.settings) for found in every if found.has_own_variables]
    for line in unknown_variables(own_settings, os.environ, settings):
        log(line)
    for found in every:
        guard = Guard(found.source, found.group.removeprefix("jaxobs.").removesuffix("s"), log)
        if found.group == PROBES:
            if found.error or not guard.call(plugins.declare, found, catalogue):
                plugins.undeclared[found.source] = found.error or guard.reason
            continue
        plugins.guards.append(guard)
        if found.error:
            guard.fail(found.error)
        elif guard.call(plugins.declare, found, catalogue):
            if found.group == COLLECTORS:
                plugins.collectors.append(Collecting(found.plugin, guard, collected))
            elif exporting := guard.call(Exporting, found.plugin, guard):
                plugins.exporters.append(exporting)
    return plugins


class Collecting:
    """One collector plugin and its thread."""

    def __init__(self, plugin: Collector, guard: Guard, received: Callable[[list[Measured]], None]) -> None:
        self._plugin = plugin
        self.guard = guard
        self._received = received
        self._stop = threading.Event()
        self._pause = Collector.interval

    def start(self, agent: Agent) -> None:
        threading.Thread(target=self._run, args=(agent,), name="jaxobs-collector", daemon=True).start()

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
        values = list(map(_with_float, self._plugin.collect()))
        self.guard.idle_reason = str(self._plugin.reason)
        return values


def _with_float(event: Any) -> Any:
    """The event with a `float` in place of another library's number, such as a numpy.float32; all else as it is."""
    is_number = isinstance(event, Measured) and isinstance(event.value, SupportsFloat)
    return event._replace(value=float(event.value)) if is_number else event
