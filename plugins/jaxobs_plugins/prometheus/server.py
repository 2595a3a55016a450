"""An HTTP/1.1 server on one thread that bounds what its clients can cost.

All connections share one event loop, so an idle or slow client costs a socket and no thread. Their number is capped:
the connection that has waited longest without a request is closed for a new one, and where all of them are in the
middle of a response, the new one is closed. Each wait for a client has a deadline.
"""

from __future__ import annotations

import asyncio
import errno
import re
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from ssl import SSLContext

import h11

MAX_HEAD_BYTES = 16_384
"""Longest head of a request. Scrapers send a few hundred bytes; common web servers allow 8 KiB a line."""
MAX_HEADERS = 100
"""Most lines of headers: as many as Apache and Python's own server allow."""

_END_OF_HEAD = b"\r\n\r\n"
_PIECE_BYTES = 65_536  # of a response, between two looks at the client's pace
_RETRY_SECONDS = 0.2  # between attempts to accept after an error
_CLOSED = {errno.EINVAL, errno.EBADF}


_AMBIGUOUS = re.compile(rb"(?<!\r)\n|\n[ \t]")
"""A line that ends in LF alone, or continues the one before it: h11 reads these, and a proxy in front might see other
lines."""


BadRequestError = h11.RemoteProtocolError
"""Raised for bytes that are no request that is served: its message, and its status as a hint, are for the client."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request. `path` is without `query`, header names are in lower case, `host` is the name and port it used."""

    method: str
    path: str
    headers: dict[str, str]
    host: str = ""
    query: str = ""
    may_be_followed: bool = True
    """Whether another request may follow on its connection; what comes after a body that is not read may not."""

    @property
    def has_body(self) -> bool:
        """Whether a body was announced; it is never read."""
        return "transfer-encoding" in self.headers or int(self.headers.get("content-length", "0")) > 0


@dataclass(frozen=True, slots=True)
class Response:
    """A response. The answer to a HEAD request has the length of `body` but not the body itself."""

    status: HTTPStatus
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)

    def head(self, *, closes: bool) -> bytes:
        """The status line and the headers; `closes` says that the connection ends with this response."""
        headers = {"Date": formatdate(usegmt=True), **self.headers, "Content-Length": str(len(self.body))}
        headers |= {"Connection": "close"} if closes else {}
        lines = [f"HTTP/1.1 {self.status.value} {self.status.phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return "\r\n".join(lines).encode("latin-1") + _END_OF_HEAD


def plain(status: HTTPStatus, text: str, headers: dict[str, str] | None = None) -> Response:
    """A response of one line of text."""
    kind = {"Content-Type": "text/plain; charset=utf-8"}
    return Response(status, text.encode() + b"\n", kind | (headers or {}))


def read_request(head: bytes) -> Request:
    """The request of a head that ends in an empty line. Raises BadRequestError, also where two could read it differently.

    It takes time linear in the length of the head.
    """
    if _AMBIGUOUS.search(head):
        raise BadRequestError("a line of the head that does not end in CR LF, or continues the one before it")
    received = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
    received.receive_data(head)
    event = received.next_event()
    if not isinstance(event, h11.Request) or not event.http_version.startswith(b"1."):
        raise BadRequestError("no request of HTTP/1.0 or HTTP/1.1")
    fields = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in event.headers]
    if len(fields) > MAX_HEADERS:
        raise BadRequestError(f"more than {MAX_HEADERS} headers", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
    headers: dict[str, str] = {}
    for name, value in fields:
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    if "content-length" in headers and "transfer-encoding" in headers:
        # Whoever goes by the other of the two sees other requests in the bytes that follow (RFC 9112, section 6.1).
        raise BadRequestError("both Content-Length and Transfer-Encoding")
    # A whole URL, as proxies are asked for, is no path that is served. Nor has `//localhost/metrics` an authority: else a
    # web page whose name is refused could ask for it.
    path, _, query = event.target.decode("latin-1").partition("?")
    received.next_event()  # the end of the request, where no body follows
    followed = received.their_state not in {h11.SEND_BODY, h11.MUST_CLOSE}
    return Request(event.method.decode("latin-1"), path, headers, headers.get("host", ""), query, followed)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on the number of clients, and on the seconds that each may take."""

    connections: int = 64
    """Most clients that are served. A handful of servers scrape a process."""
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


class HttpServer:
    """Serves `answer` at `listener` (which listens already) from `start()` to `stop()`, on one daemon thread.

    `answer` is called on that thread and must not wait; where it raises, the client gets 500 and `log` a line. Where
    `tls` gives a context, TLS is all that is spoken; each client is served by the one that it gives then.
    """

    def __init__(
        self,
        listener: socket.socket,
        answer: Callable[[Request], Response],
        log: Callable[[str], None],
        limits: Limits | None = None,
        tls: Callable[[], SSLContext | None] = lambda: None,
    ) -> None:
        self._listener = listener
        self._answer = answer
        self._log = log
        self._limits = limits or Limits()
        self._tls = tls
        self._served: set[asyncio.Task[None]] = set()
        self._waiting: dict[asyncio.Task[None], None] = {}  # tasks without a request, longest first
        # With a factory, its loop becomes no thread's current one.
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._stopped = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="jaxobs-prometheus", daemon=True)

    def start(self) -> None:
        self._listener.setblocking(False)
        loop = self._runner.get_loop()
        loop.set_exception_handler(lambda _, context: self._log(f"prometheus: {context['message']}"))
        self._thread.start()

    def stop_listening(self) -> None:
        """Refuse new clients from now on, even while a page is rendered; who is connected is served to the end."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)

    def stop(self, timeout: float) -> None:
        """Close the port at once, then the connections; waits for that `timeout` seconds at most."""
        self.stop_listening()
        if not self._thread.is_alive():  # it was not started, or is over
            self._listener.close()
            return
        with suppress(RuntimeError):  # it is over by now
            self._runner.get_loop().call_soon_threadsafe(self._stopped.set)
        self._thread.join(timeout)

    def _run(self) -> None:
        with self._runner as runner:  # which ends the connections that are left
            runner.run(self._accept())
            self._listener.close()

    async def _accept(self) -> None:
        """Accept clients until it is stopped, one for each turn of the loop: earlier ones are served in between."""
        loop = asyncio.get_running_loop()
        while not self._stopped.is_set():
            await asyncio.sleep(0)
            try:
                client, _ = await loop.sock_accept(self._listener)
            except ConnectionError:  # gone before it was accepted
                continue
            except OSError as error:
                if error.errno in _CLOSED:
                    await self._stopped.wait()
                    return
                # No file descriptor or memory is left, or accept(2) passes an error of the network on.
                self._give_up_longest_waiting()
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            self._admit(client)

    def _admit(self, client: socket.socket) -> None:
        # A response is written in pieces, none of which is to wait 40 ms for the client's acknowledgement.
        with suppress(OSError):
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if len(self._served) >= self._limits.connections and not self._give_up_longest_waiting():
            client.close()
            return

        def ended(task: asyncio.Task[None]) -> None:
            self._served.discard(task)
            self._waiting.pop(task, None)
            client.close()  # here, because a task may be cancelled before it begins
            if not task.cancelled() and (error := task.exception()) is not None:
                self._log(f"prometheus: a connection failed: {type(error).__name__}: {error}")

        task = asyncio.get_running_loop().create_task(self._serve(client))
        self._served.add(task)
        self._waiting[task] = None
        task.add_done_callback(ended)

    def _give_up_longest_waiting(self) -> bool:
        """Close the connection that has waited longest without a request. Returns whether there was one."""
        task = next(iter(self._waiting), None)
        if task is None:
            return False
        del self._waiting[task]
        self._served.discard(task)
        task.cancel()
        return True

    async def _serve(self, client: socket.socket) -> None:
        seconds = self._limits.first_request_seconds
        with suppress(OSError):  # gone, or too slow: TimeoutError is an OSError
            reader, writer = await self._connect(client)
            try:
                while (received := await _receive(reader, seconds)) is not None:
                    self._set_waiting(False)
                    await self._respond(received, writer)
                    self._set_waiting(True)
                    if isinstance(received, Response) or not received.may_be_followed:
                        await self._say_goodbye(reader, writer)
                        return
                    seconds = self._limits.next_request_seconds
                    # One client that sends many requests at once does not keep others waiting.
                    await asyncio.sleep(0)
            finally:
                writer.transport.abort()

    async def _connect(self, client: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """The client's streams, after TLS's handshake if there is one."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(MAX_HEAD_BYTES, loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        async with asyncio.timeout(self._limits.handshake_seconds):
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, client, ssl=self._tls())
        # So that `drain` waits until all is sent. At 0 TLS would never go on.
        transport.set_write_buffer_limits(1)
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    async def _respond(self, received: Request | Response, writer: asyncio.StreamWriter) -> None:
        """Send the answer to a request, or the response that refuses what was no request."""
        if isinstance(received, Response):
            head, body = received.head(closes=True), received.body
        else:
            response = self._answered(received)
            head = response.head(closes=not received.may_be_followed)
            body = b"" if received.method == "HEAD" else response.body
        async with asyncio.timeout(self._limits.response_seconds):
            writer.write(head)
            for begin in range(0, len(body), _PIECE_BYTES):
                writer.write(memoryview(body)[begin : begin + _PIECE_BYTES])
                await writer.drain()
            await writer.drain()

    def _answered(self, request: Request) -> Response:
        try:
            return self._answer(request)
        except Exception as error:  # noqa: BLE001  the guard: a defect in rendering must not end the server
            self._log(f"prometheus: a scrape failed: {type(error).__name__}: {error}")
            return plain(HTTPStatus.INTERNAL_SERVER_ERROR, "the metrics could not be rendered")

    async def _say_goodbye(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Wait a little until the client has closed, because an unread byte would turn our close into a reset."""
        async with asyncio.timeout(self._limits.goodbye_seconds):
            if writer.can_write_eof():
                writer.write_eof()
                while await reader.read(_PIECE_BYTES):
                    pass
            else:  # TLS, whose transport says goodbye and reads what still comes
                writer.close()
                await writer.wait_closed()

    def _set_waiting(self, waiting: bool) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._waiting.pop(task, None)
        if waiting:
            self._waiting[task] = None


async def _head(reader: asyncio.StreamReader) -> bytes:
    """All lines up to an empty one. Raises IncompleteReadError, LimitOverrunError if it is too long, BadRequestError."""
    head = bytearray(await reader.readexactly(1))
    # One empty line is ignored (RFC 9112, section 2.2).
    if head == b"\r" and await reader.readexactly(1) == b"\n":
        head = bytearray(await reader.readexactly(1))
    if head < b"!":  # as TLS begins: its client sends no end of a line, and waits for an answer
        raise BadRequestError("no request of HTTP; if it is TLS, ask with http:// instead of https://")
    while True:
        line = await reader.readuntil(b"\n")
        head += line
        if len(head) > MAX_HEAD_BYTES:
            raise asyncio.LimitOverrunError("a long head", len(head))
        if line in (b"\r\n", b"\n"):
            return bytes(head)


async def _receive(reader: asyncio.StreamReader, seconds: float) -> Request | Response | None:
    """The next request, the response that refuses what is no request, or None if the client has closed."""
    async with asyncio.timeout(seconds):
        try:
            return read_request(await _head(reader))
        except asyncio.IncompleteReadError:
            return None
        except asyncio.LimitOverrunError:
            text = f"the head is longer than {MAX_HEAD_BYTES} bytes"
            return plain(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, text)
        except BadRequestError as error:
            return plain(HTTPStatus(error.error_status_hint), str(error)[:200])
