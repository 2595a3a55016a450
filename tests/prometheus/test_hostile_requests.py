"""Requests that are made to be read in two ways, to take long or to fill memory: one answer each, and others beside."""

import contextlib
import re
import socket
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.prometheus.clients import GET

HOST = b"Host: localhost\r\n"
LINE = b"GET /metrics HTTP/1.1\r\n" + HOST
LAST = b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


class Hostile(NamedTuple):
    name: str
    sent: bytes
    statuses: list[int]
    """Those of the answers on this connection, after which it is closed; GET follows what is sent."""


TABLE = [
    # read in two ways: where the request ends
    Hostile("both lengths", LINE + b"Content-Length: 5\r\n" + CHUNKED + b"\r\n0\r\n\r\n", [400]),
    Hostile("both lengths, none", LINE + CHUNKED + b"Content-Length: 0\r\n\r\n", [400]),
    Hostile("both lengths, HEAD", LINE.replace(b"GET", b"HEAD") + b"Content-Length: 5\r\n" + CHUNKED + b"\r\n", [400]),
    Hostile("two lengths", LINE + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n", [400]),
    Hostile("a list of lengths", LINE + b"Content-Length: 5, 6\r\n\r\n", [400]),
    Hostile("a length with a sign", LINE + b"Content-Length: +5\r\n\r\n", [400]),
    Hostile("a length of 5 000 digits", LINE + b"Content-Length: " + b"9" * 5_000 + b"\r\n\r\n", [400]),
    Hostile("a length in a folded line", LINE + b"Content-Length:\r\n " + b"9" * 5_000 + b"\r\n\r\n", [400]),
    Hostile("an unknown coding", LINE + b"Transfer-Encoding: xchunked\r\n\r\n", [501]),
    Hostile("two codings", LINE + b"Transfer-Encoding: gzip, chunked\r\n\r\n", [501]),
    Hostile("a blank before the colon", LINE + b"Transfer-Encoding : chunked\r\n\r\n", [400]),
    Hostile("a vertical tab in a coding", LINE + b"Transfer-Encoding:\x0bchunked\r\n\r\n", [400]),
    Hostile("a continued line", LINE + b"A: b\r\n Content-Length: 5\r\n\r\n", [400]),
    Hostile("a bare line feed", LINE + b"A: b\nContent-Length: 5\r\n\r\n", [400]),
    Hostile("a bare carriage return", LINE + b"A: b\rContent-Length: 5\r\n\r\n", [400]),
    Hostile("a body", LINE + b"Content-Length: %d\r\n\r\n" % len(GET), [200]),
    Hostile("a body in chunks", LINE + CHUNKED + b"\r\n0\r\n\r\n", [200]),
    Hostile("a huge chunk", LINE + CHUNKED + b"\r\nffffffffffffffff\r\n" + b"x" * 100_000, [200]),
    Hostile("a chunk's size that does not end", LINE + CHUNKED + b"\r\n1;" + b"x" * 100_000, [200]),
    Hostile("a body that is to be asked for", LINE + b"Expect: 100-continue\r\nContent-Length: 5\r\n\r\n", [200]),
    # read in two ways: for whom it is
    Hostile("no host", b"GET /metrics HTTP/1.1\r\n\r\n", [400]),
    Hostile("two hosts", LINE + HOST + b"\r\n", [400]),
    Hostile("a host in a path", b"GET //localhost/metrics" + LAST.replace(b"localhost", b"evil.example"), [421]),
    Hostile("a target of two parts", b"GET http://evil.example/metrics" + LAST, [404]),
    Hostile("a target with a user", b"GET http://localhost@evil.example/" + LAST, [404]),
    Hostile("a target without a host", b"GET http:///metrics HTTP/1.1\r\n" + HOST + b"\r\n", [404, 200]),
    Hostile("a target that is broken", b"HEAD http://[ HTTP/1.1\r\n" + HOST + b"\r\n", [404, 200]),
    # what is no HTTP/1
    Hostile("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [400]),
    Hostile("HTTP/0.9", b"GET /metrics\r\n\r\n", [400]),
    Hostile("TLS", b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", [400]),
    # long
    Hostile("a head that does not end", LINE + b"X: " + b"x" * 100_000, [431]),
    Hostile("a long head in one piece", LINE + b"X: " + b"x" * 20_000 + b"\r\n\r\n", [431]),
    Hostile("a long target", b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", [431]),
    Hostile("many headers", LINE + b"a:\r\n" * 101 + b"\r\n", [431]),
    Hostile("blanks before a control character", LINE + b"X:" + b" " * 15_000 + b"\x0c\r\n\r\n", [400]),
    # strange, and answered as any other: GET is answered too
    Hostile("many quotes", LINE + b"Accept: " + b'"\\' * 7_500 + b"\r\n\r\n", [200, 200]),
    Hostile("many ranges", LINE + b"Accept: " + b"*/*," * 3_500 + b"\r\n\r\n", [200, 200]),
    Hostile("as many headers as may be", LINE + b"a:\r\n" * 99 + b"\r\n", [200, 200]),
    Hostile("part of a page", LINE + b"Range: bytes=0-0,1-1,2-2\r\n\r\n", [200, 200]),
    Hostile("another site's page", LINE + b"Origin: http://evil.example\r\nCookie: a=b\r\n\r\n", [200, 200]),
    Hostile("another site's form", b"POST /profile?seconds=60 HTTP/1.1\r\n" + HOST + b"\r\n", [404, 200]),
    Hostile("a zero byte in the path", b"GET /metrics%00 HTTP/1.1\r\n" + HOST + b"\r\n", [404, 200]),
    Hostile("a way up", b"GET /../../etc/passwd HTTP/1.1\r\n" + HOST + b"\r\n", [404, 200]),
    Hostile("a query of many parts", b"GET /?" + b"loop=%00&" * 1_600 + b" HTTP/1.1\r\n" + HOST + b"\r\n", [200, 200]),
    Hostile("an upgrade", LINE + b"Connection: upgrade\r\nUpgrade: h2c\r\n\r\n", [200, 200]),
    Hostile("a tunnel", b"CONNECT localhost:9464 HTTP/1.1\r\n" + HOST + b"\r\n", [404, 200]),
    Hostile("an empty line before it", b"\r\n" + LINE + b"\r\n\r\n", [200, 200]),
    Hostile("two empty lines before it", b"\r\n\r\n" + LINE + b"\r\n", [400]),
    Hostile("a carriage return before it", b"\r" + LINE + b"\r\n", [400]),
    Hostile("many at once", GET * 100, [200] * 101),
]  # fmt: skip


@pytest.fixture(scope="module")
def running(module_serve: Callable[..., Any]) -> Any:
    """One server for all of them."""
    return module_serve()


@pytest.fixture
def server(running: Any) -> Any:
    """That server, with nothing in its log."""
    running.lines.clear()
    return running


def answers(server: Any, sent: bytes) -> bytes:
    """All that is answered until the server closes or, where it waits for more, the client has no more to send."""
    with server.connect() as client:
        with contextlib.suppress(ConnectionError):
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)
        return bytes(client.makefile("rb").read())


def statuses(said: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"^HTTP/1\.1 (\d{3}) ", said, re.MULTILINE)]


@pytest.mark.parametrize("hostile", TABLE, ids=[each.name for each in TABLE])
def test_it_is_answered_once_and_nothing_that_follows_is_served(server: Any, hostile: Hostile) -> None:
    assert statuses(answers(server, hostile.sent + GET)) == hostile.statuses
    assert server.get("/-/healthy")[0] == 200
    assert server.lines == []


def test_many_of_them_at_once_hold_up_no_other(server: Any) -> None:
    """Each is sent in two pieces, the second after others have been served."""
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(server.connect()) for _ in TABLE]
        for client, hostile in zip(clients, TABLE, strict=True):
            client.sendall(hostile.sent[:40])
        assert server.get("/-/healthy")[0] == 200
        for client, hostile in zip(clients, TABLE, strict=True):
            with contextlib.suppress(ConnectionError):
                client.sendall(hostile.sent[40:])
        scrapes = [threading.Thread(target=server.get) for _ in range(8)]
        for scrape in scrapes:
            scrape.start()
        for scrape in scrapes:
            scrape.join(60)
        assert not any(scrape.is_alive() for scrape in scrapes)
    assert server.lines == []


PIECES = st.sampled_from(
    [b"GET /metrics HTTP/1.1\r\n", b"HEAD / HTTP/1.0\r\n", b"POST //x HTTP/1.1\r\n", HOST, CHUNKED,
     b"Content-Length: 0\r\n", b"Content-Length: 7\r\n", b"\r\n", b"0\r\n\r\n", b"\n", b"\r", b" ", b":", b"\0",
     b"Connection: close\r\n", b"Accept: \"\\\r\n", b"\xff\xfe", b"x" * 5_000]
)  # fmt: skip


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(PIECES, max_size=12))
def test_whatever_is_put_together_is_answered_or_waited_for(server: Any, pieces: list[bytes]) -> None:
    said = statuses(answers(server, b"".join(pieces)))
    assert len(said) <= sum(piece.endswith((b"HTTP/1.1\r\n", b"HTTP/1.0\r\n")) for piece in pieces) + 1
    assert set(said[:-1]) <= {200, 404, 405}
    assert server.lines == []
