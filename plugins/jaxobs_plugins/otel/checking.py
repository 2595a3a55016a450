"""Checks for `jaxobs check` where spans and metrics would be sent, and whether a server answers there."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from jaxobs.plugin.protocol import Remark
from jaxobs_plugins.otel.environment import SignalName, destination

CONNECT_SECONDS = 2.0
"""Seconds to wait for a connection: longer than any round trip on a healthy network, short enough to wait for."""


def remarks(signals: tuple[SignalName, ...], environment: Mapping[str, str]) -> Iterator[Remark]:
    """Remarks on each signal's endpoint, from connecting to it; nothing is sent."""
    destinations = [destination(signal, environment) for signal in signals]
    for found in destinations:
        if found.problem:
            yield Remark(found.problem, problem=True)
        elif found.endpoint is not None:
            yield _reached(found.signal, found.endpoint)
    if not any(found.problem or found.endpoint for found in destinations):
        yield Remark("spans and metrics are not sent: no endpoint is named (OTEL_EXPORTER_OTLP_ENDPOINT)")


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
