"""Finds the metrics servers to watch: addresses of the command line, `file_sd` files, or this host's default port."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urlsplit

from jaxobs.cli import UsageError
from jaxobs.model.addresses import (
    HOST_VARIABLE,
    LAST_PORT,
    MOST_BYTES,
    PORT_VARIABLE,
    PORTS_TRIED,
    Address,
    AddressError,
    ScrapeTarget,
    read_targets,
    wanted_address,
)
from jaxobs.plugin.files import open_regular

MOST_TARGETS: Final = 64
"""Most ranks that are watched: more than a host has, and as many as a screen and one core can follow."""

_KNOCK_SECONDS: Final = 0.2
"""Seconds that a port of this host may take to accept a connection, which the kernel does without the server."""


@dataclass(frozen=True, slots=True)
class Target:
    """A metrics server. `prefix` is its path behind a proxy, and ends with `/`."""

    scheme: str
    host: str
    port: int
    prefix: str = "/"
    instance: str = ""
    """The instance id of the process, among those that had this port; empty for the one that has it now."""
    guessed: bool = field(default=False, compare=False)
    """Whether the address is a guess: nothing is reported if it is no metrics server of jaxobs."""

    def __str__(self) -> str:
        path = self.prefix if self.prefix != "/" else ""
        return f"{'https://' if self.scheme == 'https' else ''}{Address(self.host, self.port).netloc()}{path}"


def target_of(text: str, instance: str = "") -> Target:
    """The target of an address such as `node1:9464`, `9464` or `https://node1:9464/metrics`. Raises UsageError."""
    given = f"localhost:{text.removeprefix(':')}" if re.fullmatch(r":?\d+", text) else text
    try:
        parts = urlsplit(given if "://" in given else f"http://{given}")
        port = parts.port
    except ValueError:
        raise UsageError(f"{text!r} is no address: give host:port, as the job logs it") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise UsageError(f"{text!r} is no address: give host:port, as the job logs it")
    if parts.username or parts.password:
        raise UsageError("an address with a password stays in histories: give the token with --token-file")
    if port is None:
        if "://" not in given:
            raise UsageError(f"{text!r} has no port, and is no directory: give host:port, as the job logs it")
        port = 443 if parts.scheme == "https" else 80
    return Target(parts.scheme, parts.hostname, port, _prefix(parts), instance)


def targets_in(directory: Path) -> list[Target]:
    """The targets that the `file_sd` files of a directory name, by run and rank; others' and malformed ones are left out.

    Raises OSError.
    """
    found: list[ScrapeTarget] = []
    for path in sorted(directory.glob("*.json")):
        try:
            with open_regular(path) as file:
                found += read_targets(file.read(MOST_BYTES))
        except (OSError, ValueError):  # the file was removed meanwhile, or is somebody else's
            continue
    targets: list[Target] = []
    for target in sorted(found, key=lambda target: (target.run, target)):
        with suppress(UsageError):
            targets.append(target_of(target.address, target.instance))
    return targets[:MOST_TARGETS]


def own_targets(environment: Mapping[str, str]) -> list[Target]:
    """The default address of this host, and those of the following ports, where further ranks listen, without a gap.

    Raises UsageError where the environment names no usable port.
    """
    try:
        settings = {
            "metrics_host": environment.get(HOST_VARIABLE),
            "metrics_port": environment.get(PORT_VARIABLE),
        }
        first = wanted_address(settings, environment)
    except AddressError as error:
        raise UsageError(str(error)) from None
    host = "localhost" if first.is_wildcard else first.host
    named = Target("http", host, first.port)
    return [named, *(Target("http", host, port, guessed=True) for port in _next_ports(host, first.port))]


def _next_ports(host: str, first: int) -> Iterator[int]:
    for port in range(first + 1, min(first + PORTS_TRIED, LAST_PORT + 1)):
        try:
            socket.create_connection((host, port), _KNOCK_SECONDS).close()
        except OSError:
            return
        yield port


def distinct(targets: Iterable[Target]) -> list[Target]:
    """The servers without duplicates, in the given order, at most MOST_TARGETS."""
    found: dict[tuple[str, int, str], Target] = {}
    for target in targets:
        found.setdefault((_one_name(target.host), target.port, target.prefix), target)
    return list(found.values())[:MOST_TARGETS]


def is_as_safe(target: Target, server: Target) -> bool:
    """Whether a token that was sent to `server` may be sent to `target`: on the same host, and not without its TLS."""
    same_host = _one_name(target.host) == _one_name(server.host)
    return same_host and (target.scheme == "https" or server.scheme == "http")


def _one_name(host: str) -> str:
    """One name for all names of this host, any of which its own server answers to."""
    return "localhost" if host in {"127.0.0.1", "::1", socket.gethostname()} else host


def _prefix(parts: SplitResult) -> str:
    path = parts.path.removesuffix("metrics").removesuffix("snapshot")
    return path if path.endswith("/") else f"{path}/"
