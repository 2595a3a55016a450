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
from jaxobs_plugins.otel.environment import (
    SignalName,
    destination,
    not_heeded,
    positive_number,
    sending,
)

if TYPE_CHECKING:
    from jaxobs_plugins.otel.delivery import Worker

DROPPED = metric(
    "jaxobs_otlp_dropped_total{signal}",
    "Spans, data points and profiles that did not reach the OTLP endpoint.",
)
SIGNALS: tuple[SignalName, ...] = ("traces", "metrics", "profiles")
CONNECT_SECONDS = 2.0
"""Seconds that a check waits for a connection: longer than any round trip on a healthy network."""


class DeliveryError(RuntimeError):
    """Requests to an OTLP endpoint failed; their items are sent again, or were dropped and counted."""


class OpenTelemetryExporter(Exporter):
    """Sends spans, metrics and profiles over OTLP/HTTP, each signal on a thread of its own.

    `export` raises DeliveryError where a request failed since its last call, so that the failure is counted; the items
    handed over are kept and sent again. OTEL_METRIC_EXPORT_INTERVAL, OTEL_BSP_SCHEDULE_DELAY,
    OTEL_BSP_MAX_QUEUE_SIZE and OTEL_BSP_MAX_EXPORT_BATCH_SIZE keep the meaning that they have for the SDK.
    """

    metrics: tuple[Metric, ...] = (DROPPED,)
    takes_events = False
    """It sends spans and snapshots."""
    _agent: Agent

    def __init__(self) -> None:
        self._workers: tuple[Worker, ...] = ()
        self._raised = False
        self._ended = False

    def delivery(self) -> Delivery:
        """The state of delivery. Metrics of a failed request are in the next one too, so none of them counts as lost.

        The end is worth waiting for where each endpoint accepted its last request, and quickly. Profiles are seldom: the
        last request may be a minute ago, or there was none.
        """
        often = (worker for worker in self._workers if worker.signal.name != "profiles")
        failing = (_failure(worker, worker.last_failure) for worker in self._workers if worker.last_failure)
        return Delivery(
            dropped=sum(worker.dropped for worker in self._workers if worker.signal.name != "metrics"),
            undelivered="; ".join(filter(None, map(self._undelivered, self._workers))),
            worth_waiting_for=all(worker.delivers for worker in often),
            failing="; ".join(failing),
        )

    def _undelivered(self, worker: Worker) -> str:
        items, dropped = worker.signal.item_name, worker.dropped
        waiting, why = worker.undelivered()
        parts = [f"{waiting} {items} wait ({why})"] if waiting and not self._ended else []
        parts += [f"{dropped} {items} were dropped ({worker.dropped_because})"] if dropped else []
        return f"{worker.endpoint}: {', '.join(parts)}" if parts else ""

    def check(self, settings: Mapping[str, Any]) -> Iterable[Remark]:  # noqa: ARG002  # all is in OTEL_… variables
        """Check where spans and metrics would be sent, and whether a server answers there; nothing is sent."""
        destinations = [destination(signal, os.environ) for signal in SIGNALS]
        for found in destinations:
            if found.problem:
                yield Remark(found.problem, problem=True)
            elif found.endpoint is not None:
                yield _reached(found.signal, found.endpoint, found.variable)
        if not any(found.problem or found.endpoint for found in destinations):
            yield Remark("spans and metrics are not sent: no endpoint is named (OTEL_EXPORTER_OTLP_ENDPOINT)")

    def start(self, agent: Agent) -> None:
        """Start a worker for each signal. Raises ValueError if an endpoint is named and nothing can be sent to it."""
        destinations = [destination(signal, os.environ) for signal in SIGNALS]
        problems = [found.problem for found in destinations if found.problem]
        endpoints = {found.signal: found.endpoint for found in destinations if found.endpoint is not None}
        if problems and not endpoints:
            raise ValueError("; ".join(problems))
        for problem in [*problems, *(not_heeded(os.environ) if endpoints else ())]:
            agent.log(f"exporter otel: {problem}")
        self.takes_batches, self.sends_spans = bool(endpoints), "traces" in endpoints
        self._agent = agent
        self._ended = False
        self._workers = tuple(_worker(signal, endpoint, agent) for signal, endpoint in endpoints.items())
        for worker in self._workers:
            worker.start()

    def export(self, batch: Batch) -> None:
        """Hand the batch to the workers, without waiting for the network."""
        for worker in self._workers if not self._ended else ():
            worker.offer(batch)
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
        if self._ended:
            return
        workers, deadline = self._workers, monotonic() + timeout
        for worker in workers:
            worker.close(deadline)
        for worker in workers:
            worker.join()
        try:
            self._report()
        finally:
            self._ended = True

    def _report(self) -> None:
        failures = []
        for worker in self._workers:
            name = worker.signal.name
            dropped, failure = worker.news()
            if dropped:
                self._agent.emit(Measured(DROPPED.name, (name,), dropped, now()))
            if failure:
                failures.append(_failure(worker, failure))
        if failures:
            raise DeliveryError("; ".join(failures))


def _failure(worker: Worker, why: str) -> str:
    return (
        f"OTLP {worker.signal.name} to {worker.endpoint}: {why}; "
        f"{worker.dropped} {worker.signal.item_name} dropped so far"
    )


def _reached(signal: SignalName, endpoint: str, variable: str) -> Remark:
    parts = urlsplit(endpoint)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname or "", port), timeout=CONNECT_SECONDS).close()
    except (OSError, UnicodeError) as error:  # that of IDNA, as by an empty part between two dots
        why = "no host has such a name" if isinstance(error, UnicodeError) else error.strerror or error
        return Remark(
            f"{signal} cannot be sent to {endpoint}: {why}; start a collector there, or change {variable}",
            problem=True,
        )
    return Remark(f"{signal} would be sent to {endpoint}, which takes connections")


def _worker(name: SignalName, endpoint: str, agent: Agent) -> Worker:
    # Imported here, because without an endpoint nothing of OpenTelemetry should be imported.
    from jaxobs_plugins.otel.delivery import Worker
    from jaxobs_plugins.otel.encoding import MetricSignal, Signal, TraceSignal

    def report(problem: str) -> None:
        agent.log(f"exporter otel: {problem}")

    def number(variable: str, default: int) -> int:
        return positive_number(variable, default, os.environ, report)

    signal: Signal
    if name == "traces":
        interval = number("OTEL_BSP_SCHEDULE_DELAY", 5_000)
        capacity = number("OTEL_BSP_MAX_QUEUE_SIZE", 2_048)
        signal = TraceSignal(agent, interval / 1_000, capacity, number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512))
    elif name == "profiles":
        from jaxobs_plugins.otel.profiles import ProfileSignal

        signal = ProfileSignal(agent)
    else:
        signal = MetricSignal(agent, number("OTEL_METRIC_EXPORT_INTERVAL", 60_000) / 1_000)
    return Worker(signal, endpoint, sending(name, os.environ, report))
