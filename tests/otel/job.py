"""A real OTLP receiver, and an agent that holds what an exporter is given."""

from __future__ import annotations

import gzip
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2 import (
    ExportProfilesServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from jaxobs.model.clock import now
from jaxobs.model.events import Measured, Span, SpanContext
from jaxobs.model.metrics import Family
from jaxobs.model.snapshot import SnapshotData
from jaxobs.plugin.protocol import Batch
from jaxobs.testing import FakeAgent
from jaxobs_plugins.otel.exporter import DeliveryError, OpenTelemetryExporter

DECODERS: dict[str, Any] = {
    "/v1/traces": ExportTraceServiceRequest,
    "/v1/metrics": ExportMetricsServiceRequest,
    "/v1development/profiles": ExportProfilesServiceRequest,
}
DECOMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "gzip": gzip.decompress,
}


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    message: Any
    status: int
    time: float


class Receiver:
    """Answers each request with what `answer(path, message)` says: status, headers, body."""

    def __init__(self, tls: ssl.SSLContext | None = None, port: int = 0) -> None:
        self.requests: list[Request] = []
        self.answer: Any = lambda path, message: (200, {}, b"")
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                body = DECOMPRESS[self.headers["Content-Encoding"] or ""](body)
                message = DECODERS[self.path].FromString(body)
                status, headers, answer = receiver.answer(self.path, message)
                sent = {name.lower(): value for name, value in self.headers.items()}
                receiver.requests.append(Request(self.path, sent, message, status, time.monotonic()))
                self.send_response(status)
                for name, value in {"Content-Length": str(len(answer)), **headers}.items():
                    if value is not None:
                        self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        scheme = "http"
        if tls is not None:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
            scheme = "https"
        self.endpoint = f"{scheme}://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def accepted(self, path: str) -> list[Request]:
        return [request for request in self.requests if request.path == path and request.status == 200]

    def spans(self) -> list[Any]:
        return [
            span
            for request in self.accepted("/v1/traces")
            for resource in request.message.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def metrics(self) -> list[Any]:
        return [
            metric
            for request in self.accepted("/v1/metrics")
            for resource in request.message.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        ]


class StandingAgent(FakeAgent):
    """One that counts what an exporter says it has dropped."""

    def dropped(self, signal: str) -> float:
        return sum(
            event.value for event in self.events if isinstance(event, Measured) and event.labels == (signal,)
        )


class Harness:
    """An exporter under an agent that counts its failures, as the guard does."""

    def __init__(self) -> None:
        self.agent = StandingAgent(pid=41)
        self.agent.resource = {"service.name": "job", "process.pid": "41"}
        self.exporter = OpenTelemetryExporter()
        self.failures: list[str] = []

    def start(self) -> None:
        self.exporter.start(self.agent)

    def export(
        self, spans: tuple[Span, ...] = (), families: tuple[Family, ...] = (), **document: Any
    ) -> None:
        self._guarded(self.exporter.export, Batch(SnapshotData(now(), document, families), (), spans))

    def stop(self, timeout: float) -> float:
        """Seconds it took."""
        started = time.monotonic()
        self._guarded(self.exporter.stop, timeout)
        return time.monotonic() - started

    def _guarded(self, function: Any, argument: Any) -> None:
        try:
            function(argument)
        except DeliveryError as error:
            self.failures.append(str(error))


def make_span(number: int, parent: SpanContext | None = None) -> Span:
    end = now()
    return Span(
        f"span-{number}", 0xABC, number + 1, parent, end - 2_000_000, end, (("number", number), ("text", "x"))
    )


def make_spans(count: int) -> tuple[Span, ...]:
    return tuple(make_span(number) for number in range(count))
