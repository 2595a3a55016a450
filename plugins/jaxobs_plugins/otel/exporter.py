"""The exporter `otel`: opens the signals that the environment asks for and hands them each batch."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from jaxobs.model.clock import monotonic, now
from jaxobs.model.events import Measured
from jaxobs.model.metrics import Metric, metric
from jaxobs.plugin.base import Delivery, Exporter
from jaxobs.plugin.protocol import Agent, Batch, Remark
from jaxobs_plugins.otel.environment import SignalName, destination, positive_number, sending

if TYPE_CHECKING:
    from jaxobs_plugins.otel.delivery import Sender

DROPPED = metric(
    "jaxobs_otlp_dropped_total{signal}", "Spans and data points that did not reach the OTLP endpoint."
)
SIGNALS: tuple[SignalName, ...] = ("metrics", "traces")
CONNECT_SECONDS = 2.0
"""Seconds that a check waits for a connection: longer than any round trip on a healthy network."""


class DeliveryError(RuntimeError):
    """Requests to an OTLP endpoint failed; their items are sent again, or were dropped and counted."""


class OpenTelemetryExporter(Exporter):
    """Sends metrics and spans over OTLP/HTTP, one after the other.

    `export` raises DeliveryError where a request failed, so that the failure is counted; the items handed over are kept
    and sent again. OTEL_METRIC_EXPORT_INTERVAL, OTEL_BSP_SCHEDULE_DELAY,
    OTEL_BSP_MAX_QUEUE_SIZE and OTEL_BSP_MAX_EXPORT_BATCH_SIZE keep the meaning that they have for the SDK.
    """

    metrics: tuple[Metric, ...] = (DROPPED,)
    takes_events = False
    """It sends spans and snapshots."""
    _agent: Agent

    def __init__(self) -> None:
        self._senders: tuple[Sender, ...] = ()
        self._raised = False

    def delivery(self) -> Delivery:
        """The state of delivery. Only spans count as lost: metrics of a failed request are in the next one too.

        The end is worth waiting for where each endpoint accepted its last request, and quickly.
        """
        return Delivery(
            dropped=sum(sender.dropped for sender in self._senders if sender.signal.name == "traces"),
            undelivered="; ".join(filter(None, (sender.undelivered() for sender in self._senders))),
            worth_waiting_for=all(sender.delivers for sender in self._senders),
        )

    def check(self, settings: Mapping[str, Any]) -> Iterable[Remark]:  # noqa: ARG002  # all is in OTEL_… variables
        """Check where spans and metrics would be sent, and whether a server answers there; nothing is sent."""
        destinations = [destination(signal, os.environ) for signal in SIGNALS]
        for found in destinations:
            if found.problem:
                yield Remark(found.problem, problem=True)
            elif found.endpoint is not None:
                yield _reached(found.signal, found.endpoint)
        if not any(found.problem or found.endpoint for found in destinations):
            yield Remark("spans and metrics are not sent: no endpoint is named (OTEL_EXPORTER_OTLP_ENDPOINT)")

    def start(self, agent: Agent) -> None:
        """Open a connection for each signal. Raises ValueError if an endpoint is named and nothing can be sent to it."""
        destinations = [destination(signal, os.environ) for signal in SIGNALS]
        problems = [found.problem for found in destinations if found.problem]
        endpoints = {found.signal: found.endpoint for found in destinations if found.endpoint is not None}
        if problems and not endpoints:
            raise ValueError("; ".join(problems))
        for problem in problems:
            agent.log(f"exporter otel: {problem}")
        self.takes_batches = bool(endpoints)
        if endpoints:
            self._agent = agent
            self._senders = tuple(_sender(signal, endpoint, agent) for signal, endpoint in endpoints.items())

    def export(self, batch: Batch) -> None:
        """Take the batch, and send what is due."""
        for sender in self._senders:
            sender.offer(batch)
            sender.turn()
        # Never raise twice in a row: a plugin that always fails is set aside, and then gets no batches to keep.
        quiet, self._raised = self._raised, False
        if not quiet:
            try:
                self._report()
            except DeliveryError:
                self._raised = True
                raise

    def stop(self, timeout: float) -> None:
        """Send what waits, for at most `timeout` seconds. Raises DeliveryError where a request failed."""
        for sender in self._senders:
            sender.turn(monotonic() + timeout / len(self._senders))
            sender.close()
        self._report()

    def _report(self) -> None:
        failures = []
        for sender in self._senders:
            name = sender.signal.name
            dropped, failure = sender.news()
            if dropped:
                self._agent.emit(Measured(DROPPED.name, (name,), dropped, now()))
            if failure:
                failures.append(
                    f"OTLP {name} to {sender.endpoint}: {failure}; "
                    f"{sender.dropped} {sender.signal.item_name} dropped so far"
                )
        if failures:
            raise DeliveryError("; ".join(failures))


def _reached(signal: SignalName, endpoint: str) -> Remark:
    parts = urlsplit(endpoint)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname or "", port), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        return Remark(
            f"{signal} cannot be sent to {endpoint}: {error.strerror or error}; start a collector there, or change "
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            problem=True,
        )
    return Remark(f"{signal} would be sent to {endpoint}, which takes connections")


def _sender(name: SignalName, endpoint: str, agent: Agent) -> Sender:
    # Imported here, because without an endpoint nothing of OpenTelemetry should be imported.
    from jaxobs_plugins.otel.delivery import Sender
    from jaxobs_plugins.otel.encoding import MetricSignal, Signal, TraceSignal

    def report(problem: str) -> None:
        agent.log(f"exporter otel: {problem}")

    def number(variable: str, default: int) -> int:
        return int(positive_number(variable, default, os.environ, report))

    signal: Signal
    if name == "traces":
        interval = number("OTEL_BSP_SCHEDULE_DELAY", 5_000)
        capacity = number("OTEL_BSP_MAX_QUEUE_SIZE", 2_048)
        signal = TraceSignal(agent, interval / 1_000, capacity, number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512))
    else:
        signal = MetricSignal(agent, number("OTEL_METRIC_EXPORT_INTERVAL", 60_000) / 1_000)
    return Sender(signal, endpoint, sending(name, os.environ, report))
