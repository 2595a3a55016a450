"""Where the metrics would be served, whether that port is free, and whether OTLP endpoints answer."""

from __future__ import annotations

import errno
import socket
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from jaxobs.cli.checks.settings import mask
from jaxobs.identity import Identity

DEFAULT_HOST, DEFAULT_PORT = "localhost", 9464
"""Of OTEL_EXPORTER_PROMETHEUS_HOST and _PORT, in OpenTelemetry's specification of environment variables."""

CONNECT_SECONDS = 2.0
"""Longer than any round trip on a healthy network, short enough to wait for."""

_SIGNALS = ("traces", "metrics")
_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


def check_metrics_address(environment: Mapping[str, str], identity: Identity, wanted: bool) -> dict[str, Any]:
    """`address` where /metrics would be served, `free`, a `note` on what happens otherwise, `problems`."""
    if not wanted:
        return {
            "address": None,
            "free": None,
            "note": "switched off by the setting prometheus",
            "problems": [],
        }
    host = environment.get("OTEL_EXPORTER_PROMETHEUS_HOST", "").strip().strip("[]") or DEFAULT_HOST
    text = environment.get("OTEL_EXPORTER_PROMETHEUS_PORT", "").strip() or str(DEFAULT_PORT)
    if not (text.isascii() and text.isdigit() and int(text) <= 65_535):
        problem = f"OTEL_EXPORTER_PROMETHEUS_PORT={text!r} is not a port: set it to a number from 0 to 65535"
        return {"address": None, "free": None, "note": None, "problems": [problem]}
    port = int(text) + identity.rank_on_host if int(text) else 0
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}/metrics"
    failure = _bind_failure(host, port)
    checked = {"address": address, "free": failure is None, "note": None, "problems": []}
    if failure is None:
        return checked
    if failure.errno == errno.EADDRINUSE and not identity.in_kubernetes:
        return {**checked, "note": "the port is taken: the next free one would be used, and logged"}
    return {**checked, "problems": [f"metrics cannot be served at {address}: {failure.strerror or failure}"]}


def check_endpoints(environment: Mapping[str, str]) -> dict[str, Any]:
    """For each OTLP signal with an endpoint: `endpoint`, whether it is `reachable`; and `problems`."""
    endpoints: dict[str, Any] = {}
    problems: list[str] = []
    disabled = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    for signal in () if disabled else _SIGNALS:
        url = (
            environment.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT") or environment.get(_ENDPOINT, "")
        ).strip()
        if not url or environment.get(f"OTEL_{signal.upper()}_EXPORTER", "").strip().lower() == "none":
            continue
        failure = _connect_failure(url)
        shown = mask(_ENDPOINT, url)
        endpoints[signal] = {"endpoint": shown, "reachable": failure is None, "reason": failure}
        if failure is not None:
            problems.append(f"{signal} cannot be sent to {shown}: {failure}")
    return {"endpoints": endpoints, "problems": problems}


def _bind_failure(host: str, port: int) -> OSError | None:
    """Why a server could not listen there; None where it could. `localhost` is the IPv4 loopback address."""
    try:
        found = socket.getaddrinfo(
            "127.0.0.1" if host == "localhost" else host, port, type=socket.SOCK_STREAM
        )
        family, _, _, _, destination = found[0]
        socket.create_server(destination[:2], family=family).close()
    except OverflowError:
        return OSError(errno.EINVAL, f"there is no port {port}")
    except OSError as error:
        return error
    return None


def _connect_failure(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        return f"no URL: {error}"
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        return "no URL such as http://localhost:4318"
    try:
        socket.create_connection((parts.hostname, port), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        return str(error.strerror or error)
    return None
