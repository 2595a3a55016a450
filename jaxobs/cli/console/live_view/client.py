"""Fetches `GET /snapshot` (docs/reference/snapshot.md) from a metrics server, or says in one line why there is none.

It uses the standard library's client, which follows no redirect and uses no proxy, so that the token goes to the
target's server and nowhere else.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from socket import SHUT_RDWR
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from jaxobs.cli.console.live_view.addresses import Target
from jaxobs.vocabulary.text import read_json

VERSION: Final = 1
"""The version of the answer's format that is supported here."""

TIMEOUT_SECONDS: Final = 5.0
_MOST_BYTES: Final = 16 << 20
"""Largest answer that is read; that of a job with 300 executables has less than 1 MB."""


class NoSnapshotError(Exception):
    """There is no snapshot; the message says in one line why, and what to do."""


class NothingListensError(NoSnapshotError):
    """No process listens at this port: the job has not begun, or has ended."""


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


class SnapshotClient:
    """A client of one server with one persistent connection; not for several threads at once."""

    def __init__(self, target: Target, access: Access) -> None:
        self._target = target
        self._access = access
        self._connection: HTTPConnection | None = None

    def fetch(self) -> Answer:
        """The newest snapshot. Raises NoSnapshotError."""
        kept = self._connection is not None
        try:
            try:
                status, body = self._ask()
            except (HTTPException, BrokenPipeError, ConnectionResetError):
                self.close()
                if not kept:
                    raise
                status, body = self._ask()  # the server has closed the connection since the last time
        except (OSError, HTTPException) as error:
            self.close()
            raise self._explained(error) from None
        if status != HTTPStatus.OK:
            raise NoSnapshotError(self._refusal(status, body))
        return self._read(body)

    def close(self) -> None:
        """Close the connection; the next fetch opens another. Called from another thread, it makes a fetch fail."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if (open_socket := connection.sock) is not None:
            with suppress(OSError):
                open_socket.shutdown(SHUT_RDWR)  # wakes a thread that waits for an answer
        connection.close()

    def _ask(self) -> tuple[int, bytes]:
        connection = self._connection = self._connection or self._connect()
        target = self._target
        path = f"{target.prefix}snapshot"
        path += f"?instance={quote(target.instance, safe='')}" if target.instance else ""
        headers = {"Accept": "application/json", "User-Agent": "jaxobs-top"}
        if self._access.token is not None:
            headers["Authorization"] = f"Bearer {self._access.token}"
        connection.request("GET", path, headers=headers)
        with connection.getresponse() as response:
            body = response.read(_MOST_BYTES + 1)
        if len(body) > _MOST_BYTES:
            raise HTTPException("the answer is too large")
        return response.status, body

    def _connect(self) -> HTTPConnection:
        host, port = self._target.host, self._target.port
        if self._target.scheme == "http":
            return HTTPConnection(host, port, timeout=TIMEOUT_SECONDS)
        context = self._access.authorities or ssl.create_default_context()
        return HTTPSConnection(host, port, timeout=TIMEOUT_SECONDS, context=context)

    def _read(self, body: bytes) -> Answer:
        stranger = NoSnapshotError(
            f"{self._target} is no metrics server of jaxobs: its /snapshot is something else"
        )
        try:
            found = read_json(body)
        except ValueError:
            raise stranger from None
        if not isinstance(found, dict) or not isinstance(found.get("version"), int):
            raise stranger
        if found["version"] != VERSION:
            raise NoSnapshotError(
                f"{self._target} serves snapshots of version {found['version']}, and this jaxobs reads version {VERSION}:"
                " take the jaxobs of the job"
            )
        if not isinstance(found.get("snapshot"), dict) or not isinstance(
            found.get("unix_seconds"), int | float
        ):
            raise stranger
        ranks = found.get("ranks") or ()
        named = (rank.get("address") for rank in ranks if isinstance(rank, dict))
        addresses = [address for address in named if isinstance(address, str)]
        return Answer(float(found["unix_seconds"]), found["snapshot"], addresses)

    def _refusal(self, status: int, body: bytes) -> str:
        first_line = body[:200].decode("utf-8", "replace").strip().splitlines()[:1]
        if status == HTTPStatus.UNAUTHORIZED:
            if self._access.token is None:
                return (
                    f"{self._target} wants a token: give --token-file FILE, or set JAXOBS_METRICS_TOKEN_FILE"
                )
            return f"{self._target} refuses this token: give the one in the job's JAXOBS_METRICS_TOKEN_FILE"
        if status == HTTPStatus.GONE:
            return f"{self._target}: this rank has ended, and another process has its port"
        if status == HTTPStatus.MISDIRECTED_REQUEST and first_line:
            return f"{self._target}: {first_line[0]}"
        return f"{self._target} is no metrics server of jaxobs: it answers {status} to GET /snapshot"

    def _explained(self, error: OSError | HTTPException) -> NoSnapshotError:
        target = self._target
        if isinstance(error, ConnectionRefusedError):
            return NothingListensError(f"nothing listens at {target}")
        if isinstance(error, TimeoutError):
            return NoSnapshotError(f"{target} does not answer within {TIMEOUT_SECONDS:g} s")
        if isinstance(error, ssl.SSLCertVerificationError):
            why = error.verify_message
            return NoSnapshotError(
                f"the certificate of {target} is not believed ({why}): give --ca-file FILE"
            )
        if isinstance(error, ssl.SSLError):
            return NoSnapshotError(f"{target} does not speak TLS: leave out https://")
        if isinstance(error, HTTPException | ConnectionResetError):
            also = "; if it is served over TLS, say https://" if target.scheme == "http" else ""
            return NoSnapshotError(f"{target} is no metrics server of jaxobs: it does not speak HTTP{also}")
        return NoSnapshotError(f"cannot reach {target}: {error.strerror or error}")
