"""Addresses: where a process serves its metrics and its page, and the `file_sd` files that tell where others do."""

from __future__ import annotations

import ipaddress
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from jaxobs.vocabulary import InputError
from jaxobs.vocabulary.text import read_json

HOST_VARIABLE = "JAXOBS_METRICS_HOST"
PORT_VARIABLE = "JAXOBS_METRICS_PORT"
_OTEL_HOST = "OTEL_EXPORTER_PROMETHEUS_HOST"
_OTEL_PORT = "OTEL_EXPORTER_PROMETHEUS_PORT"
DEFAULT_HOST = "localhost"  # both defaults: OpenTelemetry's specification of environment variables
DEFAULT_PORT = 9464
PORTS_TRIED = 100  # more ranks than any host runs
LAST_PORT = 65_535


class AddressError(InputError, OSError):
    """The metrics cannot be served at the address asked for; the message says which, why and what to do."""


@dataclass(frozen=True, slots=True)
class Address:
    """A host and port. `host` is a name or an IPv4 or IPv6 address without brackets, as given. Port 0: any free one."""

    host: str
    port: int

    @property
    def is_wildcard(self) -> bool:
        """Whether the host is a wildcard, so that the server is reachable at every address of this host."""
        try:
            return ipaddress.ip_address(self.host).is_unspecified
        except ValueError:
            return False

    def netloc(self, wildcard_host: str = "localhost") -> str:
        """`host:port` for a URL, with `wildcard_host` in place of a wildcard, which is no destination."""
        host = wildcard_host if self.is_wildcard else self.host
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


def wanted_address(settings: Mapping[str, Any], environment: Mapping[str, str]) -> Address:
    """The address that `settings` choose, else that of OpenTelemetry's variables.

    The settings that count are `metrics_host`, `metrics_port`, `job_serves_prometheus`, and `rank_on_host`, by which the
    port is moved up. Where the job itself serves Prometheus, the port of OpenTelemetry's variables is the job's, and
    ours is the next one. Raises AddressError when the port is not a number from 0 to 65535.
    """
    chosen = settings.get("metrics_host") or environment.get(_OTEL_HOST, "")
    host = chosen.strip().removeprefix("[").removesuffix("]") or DEFAULT_HOST
    own = settings.get("metrics_port")
    port = _port(PORT_VARIABLE, "" if own is None else str(own))
    if port is None:
        port = _port(_OTEL_PORT, environment.get(_OTEL_PORT, ""))
        port = DEFAULT_PORT if port is None else port
        port += 1 if port and job_has_port(settings, environment) else 0
    return Address(host, port + int(settings.get("rank_on_host") or 0) if port else 0)


def job_has_port(settings: Mapping[str, Any], environment: Mapping[str, str]) -> bool:
    """Whether the port of OpenTelemetry's variables is left to the job, whose SDK serves Prometheus itself.

    It does where `OTEL_METRICS_EXPORTER` says so, or where the job has loaded its exporter (`job_serves_prometheus`).
    """
    if settings.get("metrics_port") is not None:
        return False
    exporters = environment.get("OTEL_METRICS_EXPORTER", "").lower().split(",")
    return bool(settings.get("job_serves_prometheus")) or "prometheus" in map(str.strip, exporters)


def loaded_prometheus() -> bool:
    """Whether this process has loaded OpenTelemetry's exporter for Prometheus, and so is about to serve."""
    return "opentelemetry.exporter.prometheus" in sys.modules


def _port(variable: str, text: str) -> int | None:
    """The port in `text`; None where there is none. Raises AddressError."""
    text = text.strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 6 and int(text) <= LAST_PORT):
        raise AddressError(f"{variable}={text!r} is not a port: set it to a number from 0 to {LAST_PORT}")
    return int(text)


RUN_LABEL: Final = "jaxobs_run"
RUN_ID_LABEL: Final = "jaxobs_run_id"
RANK_LABEL: Final = "jaxobs_rank"
INSTANCE_LABEL: Final = "__param_instance"
SCHEME_LABEL: Final = "__scheme__"

MAX_BYTES: Final = 65_536
"""Most bytes that are read of a file; a rank writes less than 4 KiB."""

_TARGET: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):\d{1,5}")


@dataclass(frozen=True, slots=True, order=True)
class ScrapeTarget:
    """A process: its run, rank, the address of its page, and its instance id among those that had this port."""

    run: str
    run_id: str
    rank: int
    address: str
    instance: str
    row: dict[str, Any] | None = field(default=None, compare=False)
    """What it tells of itself to the pages of its neighbours."""


def read_targets(content: bytes) -> Iterator[ScrapeTarget]:
    """The processes in a `file_sd` file that jaxobs observes; others and malformed entries are left out.

    Raises ValueError where it is no JSON.
    """
    groups = read_json(content)
    for group in groups if isinstance(groups, list) else ():
        told = group if isinstance(group, dict) else {}
        labels, targets, row = told.get("labels"), told.get("targets"), told.get("row")
        if not isinstance(labels, dict) or not isinstance(targets, list):
            continue
        scheme = labels.get(SCHEME_LABEL, "http")
        named = (RUN_LABEL, RUN_ID_LABEL, RANK_LABEL, INSTANCE_LABEL)
        run, run_id, rank, instance = (str(labels.get(label, "")) for label in named)
        for target in targets:
            # A check, because others may write into the directory: an address must not become a link to a script.
            if rank.isdecimal() and scheme in ("http", "https") and _TARGET.fullmatch(str(target)):
                known = row if isinstance(row, dict) else None
                yield ScrapeTarget(run, run_id, int(rank), f"{scheme}://{target}/", instance, known)
