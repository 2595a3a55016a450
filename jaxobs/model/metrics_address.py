"""The address at which a process serves its metrics and its live page, by the variables of OpenTelemetry."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass

HOST_VARIABLE = "OTEL_EXPORTER_PROMETHEUS_HOST"
PORT_VARIABLE = "OTEL_EXPORTER_PROMETHEUS_PORT"
DEFAULT_HOST = "localhost"  # both defaults: OpenTelemetry's specification of environment variables
DEFAULT_PORT = 9464
PORTS_TRIED = 100  # more ranks than any host runs
LAST_PORT = 65_535


class AddressError(OSError):
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


def wanted_address(environment: Mapping[str, str], rank_on_host: int) -> Address:
    """The address by the OpenTelemetry variables, its port moved up by this process's rank on its host.

    Raises AddressError when the port is not a number from 0 to 65535.
    """
    host = environment.get(HOST_VARIABLE, "").strip().removeprefix("[").removesuffix("]") or DEFAULT_HOST
    text = environment.get(PORT_VARIABLE, "").strip() or str(DEFAULT_PORT)
    if not (text.isascii() and text.isdigit() and len(text) < 6 and int(text) <= LAST_PORT):
        raise AddressError(
            f"{PORT_VARIABLE}={text!r} is not a port: set it to a number from 0 to {LAST_PORT}"
        )
    port = int(text)
    return Address(host, port + rank_on_host if port else 0)
