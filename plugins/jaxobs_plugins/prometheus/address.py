"""Opens a socket that listens at the address where metrics are wanted, or at the next free port."""

from __future__ import annotations

import errno
import ipaddress
import socket
from collections.abc import Iterator

from jaxobs.model.metrics_address import (
    HOST_VARIABLE,
    LAST_PORT,
    PORT_VARIABLE,
    PORTS_TRIED,
    Address,
    AddressError,
)

_BACKLOG = 128  # connections the kernel keeps while the server is busy rendering


def listen(wanted: Address, may_move: bool) -> tuple[socket.socket, Address]:
    """A listening socket and its actual address.

    Where the port is taken and `may_move` is true, it is the next free one, or after `PORTS_TRIED` any free one.
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
    reason = "the port is taken" if wanted.port <= LAST_PORT else "there is no such port"
    raise AddressError(
        f"cannot serve metrics at {wanted.netloc()}: {reason}, and in Kubernetes it must not move;"
        f" set {PORT_VARIABLE} to a free one"
    )


def is_open_to_network(listener: socket.socket) -> bool:
    """Whether a listening socket can be reached from other hosts, because its address is no loopback address."""
    return not ipaddress.ip_address(listener.getsockname()[0]).is_loopback


def _candidates(port: int, may_move: bool) -> Iterator[int]:
    if not may_move:
        yield from [port] if port <= LAST_PORT else []
        return
    yield from range(port, min(port + PORTS_TRIED, LAST_PORT + 1))
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
