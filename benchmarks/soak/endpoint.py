"""An OTLP/HTTP endpoint that answers as it is told: well, badly, late, never; or is not there."""

from __future__ import annotations

import gzip
import random
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

STATUS = {"unavailable": 503, "too large": 413}
MODES = ("accepts", "accepts", "unavailable", "too large", "slow", "silent", "closed")

SILENT_SECONDS = 15.0
"""How long a request is kept without an answer: longer than the exporter waits, which is 10 s by default."""


class Endpoint:
    """`mode` is one of MODES. `spans` are those for which it answered that it has them."""

    def __init__(self) -> None:
        self.mode = "accepts"
        self.spans: set[bytes] = set()
        self.sent_twice = 0
        self._lock = threading.Lock()
        self._server: ThreadingHTTPServer | None = None
        self._address = ("127.0.0.1", 0)
        self._open()
        self.url = f"http://127.0.0.1:{self._address[1]}"

    def turn(self, mode: str) -> None:
        """Answer so from now on."""
        self.mode = mode
        if mode == "closed" and self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        elif mode != "closed" and self._server is None:
            self._open()

    def took(self, spans: set[bytes]) -> None:
        with self._lock:
            self.sent_twice += len(spans & self.spans)
            self.spans |= spans

    def _open(self) -> None:
        self._server = ThreadingHTTPServer(self._address, _handler(self))
        self._server.daemon_threads = True
        self._address = ("127.0.0.1", self._server.server_port)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()


def _handler(endpoint: Endpoint) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            mode = endpoint.mode
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if mode in {"silent", "closed"}:  # a server that goes ends the connections that it has
                time.sleep(SILENT_SECONDS if mode == "silent" else 0.0)
                self.close_connection = True
                return
            if mode == "slow":
                time.sleep(random.uniform(0.5, 3.0))
            status = STATUS.get(mode, 200)
            if status == 200 and self.path == "/v1/traces":
                endpoint.took(_span_ids(body, self.headers["Content-Encoding"]))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def _span_ids(body: bytes, encoding: str | None) -> set[bytes]:
    message = ExportTraceServiceRequest.FromString(gzip.decompress(body) if encoding == "gzip" else body)
    return {
        span.trace_id + span.span_id
        for resource in message.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    }
