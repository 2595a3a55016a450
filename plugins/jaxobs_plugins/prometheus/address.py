"""Where to serve: host and port from the environment, and a socket that listens there."""

from __future__ import annotations

import errno
import ipaddress
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HOST_VARIABLE = "OTEL_EXPORTER_PROMETHEUS_HOST"
PORT_VARIABLE = "OTEL_EXPORTER_PROMETHEUS_PORT"
DEFAULT_HOST = "localhost"  # both defaults: OpenTelemetry's specification of environment variables
DEFAULT_PORT = 9464
PORTS_TRIED = 100  # more ranks than any host runs
_LAST_PORT = 65_535
_BACKLOG = 128  # connections the kernel keeps while the server is busy rendering


class AddressError(OSError):
    """The metrics cannot be served at the address asked for; the message says which, why and what to do."""


@dataclass(frozen=True, slots=True)
class Address:
    """`host` as given, a name or an IPv4 or IPv6 address without brackets. Port 0: any free one."""

    host: str
    port: int

    @property
    def is_wildcard(self) -> bool:
        """Whether the server is reachable at every address of this host."""
        try:
            return ipaddress.ip_address(self.host).is_unspecified
        except ValueError:
            return False

    def netloc(self, wildcard_host: str = "localhost") -> str:
        """`host:port` for a URL, with `wildcard_host` in the place of a wildcard, which is no destination."""
        host = wildcard_host if self.is_wildcard else self.host
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


def wanted_address(environment: Mapping[str, str], rank_on_host: int) -> Address:
    """The address by the OpenTelemetry variables, its port moved up by this process's rank on its host.

    Raises AddressError when the port is not a number from 0 to 65535.
    """
    host = environment.get(HOST_VARIABLE, "").strip().removeprefix("[").removesuffix("]") or DEFAULT_HOST
    text = environment.get(PORT_VARIABLE, "").strip() or str(DEFAULT_PORT)
    if not (text.isascii() and text.isdigit() and len(text) < 6 and int(text) <= _LAST_PORT):
        raise AddressError(
            f"{PORT_VARIABLE}={text!r} is not a port: set it to a number from 0 to {_LAST_PORT}"
        )
    port = int(text)
    return Address(host, port + rank_on_host if port else 0)


def listen(wanted: Address, may_move: bool) -> tuple[socket.socket, Address]:
    """A listening socket and where it really listens.

    Where the port is taken and `may_move`: the next free one, after `PORTS_TRIED` any free one.
    Raises AddressError.
    """
    for port in _candidates(wanted.port, may_move):
        try:
            listener = _bind(wanted.host, port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise AddressError(_explain(wanted.host, port, error)) from error
        else:
            return listener, Address(wanted.host, listener.getsockname()[1])
    reason = "the port is taken" if wanted.port <= _LAST_PORT else "there is no such port"
    raise AddressError(
        f"cannot serve metrics at {wanted.netloc()}: {reason}, and in Kubernetes it must not move;"
        f" set {PORT_VARIABLE} to a free one"
    )


def is_open_to_network(listener: socket.socket) -> bool:
    """Whether a listening socket is reached from other hosts too, and not on a loopback address alone."""
    return not ipaddress.ip_address(listener.getsockname()[0]).is_loopback


def _candidates(port: int, may_move: bool) -> Iterator[int]:
    if not may_move:
        yield from [port] if port <= _LAST_PORT else []
        return
    yield from range(port, min(port + PORTS_TRIED, _LAST_PORT + 1))
    yield 0


def _bind(host: str, port: int) -> socket.socket:
    if host == "localhost":
        return socket.create_server(("127.0.0.1", port), backlog=_BACKLOG)
    family, _, _, _, destination = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    both = family == socket.AF_INET6 and host == "::" and socket.has_dualstack_ipv6()
    return socket.create_server(destination[:2], family=family, backlog=_BACKLOG, dualstack_ipv6=both)


def _explain(host: str, port: int, error: OSError) -> str:
    failed = f"cannot serve metrics at {Address(host, port).netloc(wildcard_host=host)}"
    if isinstance(error, socket.gaierror):
        return f"{failed}: no such host; set {HOST_VARIABLE} to a name or address of this host"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{failed}: not an address of this host; set {HOST_VARIABLE} to one that is"
    if error.errno == errno.EACCES:
        return f"{failed}: no permission; set {PORT_VARIABLE} to a port above 1023"
    return f"{failed}: {error.strerror}; set {HOST_VARIABLE} and {PORT_VARIABLE}"
