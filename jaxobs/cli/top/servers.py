"""Finds the metrics servers to watch, and fetches `GET /snapshot` (docs/reference/snapshot.md) from them.

Servers are given by addresses of the command line, by `file_sd` files, or by this host's default port. The standard
library's client follows no redirect and uses no proxy, so that the token goes to the target's server and nowhere else.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from jaxobs.config import load_settings
from jaxobs.model.addresses import (
    LAST_PORT,
    MAX_BYTES,
    PORTS_TRIED,
    Address,
    ScrapeTarget,
    read_targets,
    wanted_address,
)
from jaxobs.plugin.files import open_regular
from jaxobs.vocabulary import InputError
from jaxobs.vocabulary.text import read_json

MAX_TARGETS: Final = 64
"""Most ranks that are watched: more than a host has, and as many as a screen and one core can follow."""

VERSION: Final = 1
"""The version of the answer's format that is supported here."""

TIMEOUT_SECONDS: Final = 5.0
MAX_ANSWER_BYTES: Final = 16 << 20
"""Largest answer that is read; that of a job with 300 executables has less than 1 MB."""

_PATHS: Final = ("", "/", "/metrics", "/snapshot")
"""Paths that an address may have. Behind any other there may be another job than the one at the port."""

_KNOCK_SECONDS: Final = 0.2
"""Seconds that a port of this host may take to accept a connection, which the kernel does without the server."""


class NoSnapshotError(Exception):
    """There is no snapshot; the message says in one line why, and what to do."""


class NothingListensError(NoSnapshotError):
    """No process listens at this port: the job has not begun, or has ended."""


@dataclass(frozen=True, slots=True)
class Target:
    """A metrics server."""

    scheme: str
    host: str
    port: int
    guessed: bool = field(default=False, compare=False)
    """Whether the address is a guess: nothing is reported if it is no metrics server of jaxobs."""

    def __str__(self) -> str:
        return f"{'https://' if self.scheme == 'https' else ''}{Address(self.host, self.port).netloc()}"


class Access(NamedTuple):
    """The credentials for servers: the token to send, and the certificate authorities to trust."""

    token: str | None = None
    authorities: ssl.SSLContext | None = None
    """None: those of the system."""


class Answer(NamedTuple):
    """A server's answer: the snapshot of its process, and the addresses of other ranks."""

    unix_seconds: float
    snapshot: Mapping[str, Any]
    neighbours: Sequence[str]
    """Addresses of the pages of the other ranks of this run on its host."""


def target_of(text: str) -> Target:
    """The target of an address such as `node1:9464`, `9464` or `https://node1:9464/metrics`. Raises InputError."""
    no_address = InputError(f"{text!r} is no address: give host:port, as the job logs it")
    given = f"localhost:{text.removeprefix(':')}" if re.fullmatch(r":?\d+", text) else text
    try:
        parts = urlsplit(given if "://" in given else f"http://{given}")
        port = parts.port
    except ValueError:
        raise no_address from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.path not in _PATHS:
        raise no_address
    if parts.username or parts.password:
        raise InputError("an address with a password stays in histories: give the token with --token-file")
    if port is None:
        if "://" not in given:
            raise InputError(f"{text!r} has no port, and is no directory: give host:port, as the job logs it")
        port = 443 if parts.scheme == "https" else 80
    return Target(parts.scheme, parts.hostname, port)


def targets_in(directory: Path) -> list[Target]:
    """The targets that the `file_sd` files of a directory name, by run and rank; others' and malformed ones are left out.

    Raises OSError.
    """
    found: list[ScrapeTarget] = []
    for path in sorted(directory.glob("*.json")):
        # The file was removed meanwhile, or is somebody else's.
        with suppress(OSError, ValueError), open_regular(path) as file:
            found += read_targets(file.read(MAX_BYTES))
    targets: list[Target] = []
    for target in sorted(found):
        with suppress(InputError):
            targets.append(target_of(target.address))
    return targets[:MAX_TARGETS]


def own_targets() -> list[Target]:
    """The default address of this host, and those of the following ports, where further ranks listen, without a gap.

    Raises InputError if the environment names no usable port.
    """
    first = wanted_address(vars(load_settings()), os.environ)
    host = "localhost" if first.is_wildcard else first.host
    others = (Target("http", host, port, guessed=True) for port in _next_ports(host, first.port))
    return [Target("http", host, first.port), *others]


def _next_ports(host: str, first: int) -> Iterator[int]:
    for port in range(first + 1, min(first + PORTS_TRIED, LAST_PORT + 1)):
        try:
            socket.create_connection((host, port), _KNOCK_SECONDS).close()
        except (OSError, UnicodeError):
            return
        yield port


def distinct(targets: Iterable[Target]) -> list[Target]:
    """The servers without duplicates, in the given order, at most MAX_TARGETS."""
    found: dict[tuple[str, int], Target] = {}
    for target in targets:
        found.setdefault((_one_name(target.host), target.port), target)
    return list(found.values())[:MAX_TARGETS]


def is_as_safe(target: Target, server: Target) -> bool:
    """Whether a token that was sent to `server` may be sent to `target`: on the same host, and not without its TLS."""
    same_host = _one_name(target.host) == _one_name(server.host)
    return same_host and (target.scheme == "https" or server.scheme == "http")


def _one_name(host: str) -> str:
    """One name for all names of this host, any of which its own server answers to."""
    return "localhost" if host in {"127.0.0.1", "::1", socket.gethostname()} else host


class SnapshotClient:
    """A client of one server; not for several threads at once."""

    def __init__(self, target: Target, access: Access) -> None:
        self._target = target
        self._access = access
        self._connection: HTTPConnection | None = None

    def fetch(self) -> Answer:
        """The newest snapshot. Raises NoSnapshotError."""
        try:
            status, body = self._ask()
        except (OSError, HTTPException, UnicodeError) as error:  # of IDNA the last
            raise self._explained(error) from None
        finally:
            self.close()
        if status != HTTPStatus.OK:
            raise NoSnapshotError(self._refusal(status, body))
        return self._read(body)

    def close(self) -> None:
        """Close the connection. Called from another thread, it makes a fetch fail."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if (open_socket := connection.sock) is not None:
            with suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits for an answer
        connection.close()

    def _ask(self) -> tuple[int, bytes]:
        target = self._target
        if target.scheme == "http":
            connection = HTTPConnection(target.host, target.port, timeout=TIMEOUT_SECONDS)
        else:
            context = self._access.authorities or ssl.create_default_context()
            connection = HTTPSConnection(target.host, target.port, timeout=TIMEOUT_SECONDS, context=context)
        self._connection = connection
        headers = {"Accept": "application/json", "User-Agent": "jaxobs-top"}
        if self._access.token is not None:
            headers["Authorization"] = f"Bearer {self._access.token}"
        connection.request("GET", "/snapshot", headers=headers)
        with connection.getresponse() as response:
            body = response.read(MAX_ANSWER_BYTES + 1)
        if len(body) > MAX_ANSWER_BYTES:
            raise HTTPException("the answer is too large")
        return response.status, body

    def _read(self, body: bytes) -> Answer:
        answer: dict[str, Any] = {}
        with suppress(ValueError):
            answer = found if isinstance(found := read_json(body), dict) else {}
        version, seconds, snapshot = map(answer.get, ("version", "unix_seconds", "snapshot"))
        if isinstance(version, int) and version != VERSION:
            raise NoSnapshotError(
                f"{self._target} serves snapshots of version {version}, not {VERSION}: take the jaxobs of the job"
            )
        if not (isinstance(snapshot, dict) and isinstance(seconds, int | float) and version == VERSION):
            raise self._stranger("its /snapshot is something else")
        ranks = found if isinstance(found := answer.get("ranks"), list) else []
        named = (rank.get("address") for rank in ranks if isinstance(rank, dict))
        return Answer(float(seconds), snapshot, [address for address in named if isinstance(address, str)])

    def _stranger(self, why: str) -> NoSnapshotError:
        return NoSnapshotError(f"{self._target} is no metrics server of jaxobs: {why}")

    def _refusal(self, status: int, body: bytes) -> str:
        target = self._target
        first_line = body[:200].decode("utf-8", "replace").strip().splitlines()[:1]
        if status == HTTPStatus.UNAUTHORIZED and self._access.token is None:
            return f"{target} wants a token: give --token-file FILE, or set JAXOBS_METRICS_TOKEN_FILE"
        if status == HTTPStatus.UNAUTHORIZED:
            return f"{target} refuses this token: give the one in the job's JAXOBS_METRICS_TOKEN_FILE"
        if status == HTTPStatus.MISDIRECTED_REQUEST and first_line:
            return f"{target}: {first_line[0]}"
        return str(self._stranger(f"it answers {status} to GET /snapshot"))

    def _explained(self, error: OSError | HTTPException | UnicodeError) -> NoSnapshotError:
        target = self._target
        if isinstance(error, ConnectionRefusedError):
            return NothingListensError(f"nothing listens at {target}")
        if isinstance(error, HTTPException | ConnectionResetError):
            also = "; if it is served over TLS, say https://" if target.scheme == "http" else ""
            return self._stranger(f"it does not speak HTTP{also}")
        reason = "no host has such a name" if isinstance(error, UnicodeError) else error.strerror or error
        why = f"cannot reach {target}: {reason}"
        if isinstance(error, TimeoutError):
            or_tls = "" if target.scheme == "http" else ", or does not speak TLS: then leave out https://"
            why = f"{target} does not answer within {TIMEOUT_SECONDS:g} s{or_tls}"
        elif isinstance(error, ssl.SSLCertVerificationError):
            why = f"the certificate of {target} is not believed ({error.verify_message}): give --ca-file FILE"
        elif isinstance(error, ssl.SSLError):
            why = f"{target} does not speak TLS: leave out https://"
        return NoSnapshotError(why)
