"""Byte streams to and from one client on an event loop, plain or through TLS. Both raise OSError (SSLError is one)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from ssl import SSLContext

RECEIVE_BYTES = 65_536
_RECORD_BYTES = 16_384  # the most that a TLS record carries (RFC 8446, section 5.1)

Result = TypeVar("Result")


class PlainStream:
    """Bytes to and from a non-blocking socket. Call `open` first and `close_writing` last."""

    def __init__(self, client: socket.socket) -> None:
        self._client = client

    async def open(self) -> None:
        """Make the connection ready."""

    async def receive(self) -> bytes:
        """Wait for bytes from the client and return them; empty at the end."""
        return await asyncio.get_running_loop().sock_recv(self._client, RECEIVE_BYTES)

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._client, data)

    async def close_writing(self) -> None:
        """Signal the client that nothing follows."""
        self._client.shutdown(socket.SHUT_WR)


class TlsStream:
    """Bytes to and from a socket through TLS. Each client has its own handshake: one that stalls delays no other."""

    def __init__(self, client: socket.socket, context: SSLContext) -> None:
        import ssl

        self._plain = PlainStream(client)
        self._from_client, self._to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._from_client, self._to_client, server_side=True)
        self._wants_more, self._ended = ssl.SSLWantReadError, ssl.SSLZeroReturnError

    async def open(self) -> None:
        await self._whenever_possible(self._tls.do_handshake)

    async def receive(self) -> bytes:
        try:
            return await self._whenever_possible(lambda: self._tls.read(RECEIVE_BYTES))
        except self._ended:
            return b""

    async def send(self, data: bytes) -> None:
        view = memoryview(data)
        for begin in range(0, len(data), _RECORD_BYTES):
            self._tls.write(view[begin : begin + _RECORD_BYTES])
            await self._flush()

    async def close_writing(self) -> None:
        with suppress(self._wants_more):  # for the client's goodbye, which need not come
            self._tls.unwrap()
        await self._flush()
        await self._plain.close_writing()

    async def _whenever_possible(self, call: Callable[[], Result]) -> Result:
        """Repeat `call` until it succeeds, sending the bytes that it writes and awaiting those that it needs."""
        while True:
            try:
                result = call()
            except self._wants_more:
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
