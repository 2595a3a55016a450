"""One client's connection: requests in, responses out, each with a deadline."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar

from jaxobs_plugins.prometheus.server.conversation import Conversation
from jaxobs_plugins.prometheus.server.messages import BadRequestError, Request, Response, plain

RECEIVE_BYTES = 65_536
_RECORD_BYTES = 16_384  # the most that a TLS record carries (RFC 8446, section 5.1)

Result = TypeVar("Result")

Answer = Callable[[Request], Response]
Log = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on the number of clients, and on the seconds that each may take."""

    connections: int = 64
    """Most clients that are served; as many again may be being refused. A handful of servers scrape a process."""
    handshake_seconds: float = 5.0
    """For TLS: two round trips, and a signature of about a millisecond."""
    first_request_seconds: float = 5.0
    """For the first request, which clients have ready when they connect."""
    next_request_seconds: float = 75.0
    """For each further request: Prometheus scrapes every minute by default, and keeps its connection meanwhile."""
    response_seconds: float = 10.0
    """For sending a response: Prometheus's default scrape timeout, after which nobody waits for the rest."""
    goodbye_seconds: float = 1.0
    """For the client to take the last bytes and close: closing earlier could lose them."""


class Connection:
    """A client's connection, which owns `client`, a non-blocking socket.

    Every method may raise OSError: the client is gone, or too slow.

    `answer` must not wait; where it raises, the client gets 500 and `log` a line. With
    `tls`, TLS is all that is spoken.
    """

    def __init__(
        self,
        client: socket.socket,
        answer: Answer,
        log: Log,
        limits: Limits,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._client = client
        self._stream = PlainStream(client) if tls is None else TlsStream(client, tls)
        self._answer = answer
        self._log = log
        self._limits = limits
        self._conversation = Conversation()

    async def open(self) -> None:
        """Make TLS's handshake, if there is one, before anything else."""
        async with asyncio.timeout(self._limits.handshake_seconds):
            await self._stream.open()

    async def receive(self, seconds: float) -> Request | Response | None:
        """The next request, the response that refuses what is no request, or None if the client has closed."""
        async with asyncio.timeout(seconds):
            try:
                while (request := self._conversation.next_request()) is None:
                    data = await self._stream.receive()
                    if not data:
                        return None
                    self._conversation.receive(data)
            except BadRequestError as error:
                return plain(error.status, str(error))
        return request

    async def respond(self, received: Request | Response) -> bool:
        """Answer what was received. Returns whether another request may follow."""
        await self._send(received if isinstance(received, Response) else self._answered(received))
        return self._conversation.goes_on()

    async def refuse(self) -> None:
        """Answer that there are too many clients, without reading the request."""
        headers = {"Retry-After": "1"}
        await self._send(
            plain(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections; try again later", headers)
        )

    async def say_goodbye(self) -> None:
        """Wait a little until the client has closed, because an unread byte would turn our close into a reset."""
        plain = PlainStream(self._client)
        async with asyncio.timeout(self._limits.goodbye_seconds):
            await self._stream.close_writing()
            while await plain.receive():
                pass

    def close(self) -> None:
        """Close the socket, whatever it was doing."""
        self._client.close()

    def _answered(self, request: Request) -> Response:
        try:
            return self._answer(request)
        except Exception as error:  # noqa: BLE001  the guard: a defect in rendering must not end the server
            self._log(f"prometheus: a scrape failed: {type(error).__name__}: {error}")
            return plain(HTTPStatus.INTERNAL_SERVER_ERROR, "the metrics could not be rendered")

    async def _send(self, response: Response) -> None:
        async with asyncio.timeout(self._limits.response_seconds):
            for piece in self._conversation.answer(response):
                await self._stream.send(piece)


class PlainStream:
    """Bytes to and from a non-blocking socket. Call `open` first and `close_writing` last."""

    def __init__(self, client: socket.socket) -> None:
        self._client = client

    async def open(self) -> None:
        """Make the connection ready."""

    async def receive(self) -> bytes:
        """Wait for bytes from the client and return them; empty at the end. Others always have a turn meanwhile."""
        await asyncio.sleep(0)  # what is there already comes without a turn of the loop
        return await asyncio.get_running_loop().sock_recv(self._client, RECEIVE_BYTES)

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._client, data)

    async def close_writing(self) -> None:
        """Signal the client that nothing follows."""
        self._client.shutdown(socket.SHUT_WR)


class TlsStream:
    """Bytes to and from a socket through TLS. Each client has its own handshake: one that stalls delays no other."""

    def __init__(self, client: socket.socket, context: ssl.SSLContext) -> None:
        self._plain = PlainStream(client)
        self._from_client, self._to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._from_client, self._to_client, server_side=True)

    async def open(self) -> None:
        await self._whenever_possible(self._tls.do_handshake)

    async def receive(self) -> bytes:
        try:
            return await self._whenever_possible(lambda: self._tls.read(RECEIVE_BYTES))
        except ssl.SSLZeroReturnError:
            return b""

    async def send(self, data: bytes) -> None:
        view = memoryview(data)
        for begin in range(0, len(data), _RECORD_BYTES):
            self._tls.write(view[begin : begin + _RECORD_BYTES])
            await self._flush()

    async def close_writing(self) -> None:
        with suppress(ssl.SSLWantReadError):  # for the client's goodbye, which need not come
            self._tls.unwrap()
        await self._flush()
        await self._plain.close_writing()

    async def _whenever_possible(self, call: Callable[[], Result]) -> Result:
        """Repeat `call` until it succeeds, sending the bytes that it writes and awaiting those that it needs."""
        while True:
            try:
                result = call()
            except ssl.SSLWantReadError:
                await self._flush()
            except OSError:
                await self._flush()  # the alert that tells the client why
                raise
            else:
                await self._flush()
                return result
            if data := await self._plain.receive():
                self._from_client.write(data)
            else:
                self._from_client.write_eof()

    async def _flush(self) -> None:
        if self._to_client.pending:
            await self._plain.send(self._to_client.read())
