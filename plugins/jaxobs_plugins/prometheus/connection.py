"""One client's connection: requests in, responses out, each with a deadline."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from jaxobs_plugins.prometheus.messages import (
    BadRequestError,
    Request,
    Response,
    parse_request,
    plain,
    response_head,
)
from jaxobs_plugins.prometheus.stream import RECEIVE_BYTES, PlainStream, Stream, TlsStream

if TYPE_CHECKING:
    from ssl import SSLContext

_HEAD_BYTES = 16_384  # scrapers send a few hundred; common web servers allow 8 KiB a line
_END = b"\r\n\r\n"

Answer = Callable[[Request], Response]
Log = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Limits:
    """How many clients there may be, and the seconds each may take."""

    connections: int = 64
    """Besides as many that are being refused. A process is scraped by a handful of servers."""
    handshake_seconds: float = 5.0
    """Of TLS: two round trips, and a signature of about a millisecond."""
    first_request_seconds: float = 5.0
    """A client that connects has its request ready."""
    next_request_seconds: float = 75.0
    """Prometheus scrapes every minute by default, and keeps its connection meanwhile."""
    response_seconds: float = 10.0
    """Prometheus's default scrape timeout: by then nobody waits for the rest."""
    goodbye_seconds: float = 1.0
    """For the client to take the last bytes and close: closing earlier could lose them."""


class Connection:
    """Owns `client`, a non-blocking socket. Every method may raise OSError: the client is gone, or too slow.

    `answer` must not wait; where it raises, the client gets 500 and `log` a line. With `tls`, TLS is all that is spoken.
    """

    def __init__(
        self, client: socket.socket, answer: Answer, log: Log, limits: Limits, tls: SSLContext | None = None
    ) -> None:
        self._client = client
        self._stream: Stream = PlainStream(client) if tls is None else TlsStream(client, tls)
        self._answer = answer
        self._log = log
        self._limits = limits
        self._received = bytearray()

    async def open(self) -> None:
        """First of all: TLS's handshake, where there is one."""
        async with asyncio.timeout(self._limits.handshake_seconds):
            await self._stream.open()

    async def receive_head(self, seconds: float) -> bytes | None:
        """The head of the next request; None where the client has closed, and empty where it is too long."""
        async with asyncio.timeout(seconds):
            while (end := self._received.find(_END)) < 0:
                if len(self._received) > _HEAD_BYTES:
                    return b""
                data = await self._stream.receive()
                if not data:
                    return None
                self._received += data
        head = bytes(self._received[:end])
        del self._received[: end + len(_END)]
        return head

    async def respond(self, head: bytes) -> bool:
        """Answer one request. Whether another one may follow."""
        keep_alive, with_body = False, True
        try:
            request = parse_request(head)
            keep_alive, with_body = request.keep_alive, request.method != "HEAD"
            response = self._answer(request)
        except BadRequestError as error:
            response = plain(HTTPStatus.BAD_REQUEST, str(error))
        except Exception as error:  # noqa: BLE001  the guard: a defect in rendering must not end the server
            self._log(f"prometheus: a scrape failed: {type(error).__name__}: {error}")
            response = plain(HTTPStatus.INTERNAL_SERVER_ERROR, "the metrics could not be rendered")
        await self._send(response, keep_alive, with_body)
        return keep_alive

    async def refuse(self) -> None:
        """Say that there are too many clients, without reading what this one asks."""
        headers = {"Retry-After": "1"}
        busy = plain(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections; try again later", headers)
        await self._send(busy, keep_alive=False, with_body=True)

    async def say_goodbye(self) -> None:
        """Wait a little until the client has closed: an unread byte would turn our close into a reset."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self._limits.goodbye_seconds):
            await self._stream.close_writing()
            while await loop.sock_recv(self._client, RECEIVE_BYTES):  # noqa: ASYNC110  # there is no event to wait for
                await asyncio.sleep(0)  # what is there already comes without a turn of the loop

    def close(self) -> None:
        """Close the socket, whatever it was doing."""
        self._client.close()

    async def _send(self, response: Response, keep_alive: bool, with_body: bool) -> None:
        async with asyncio.timeout(self._limits.response_seconds):
            await self._stream.send(response_head(response, keep_alive))
            if with_body:
                await self._stream.send(response.body)
