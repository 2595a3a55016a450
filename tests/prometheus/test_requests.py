"""The head of a request: what it says, what is refused, and how the answer begins."""

import asyncio
from contextlib import suppress
from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs_plugins.prometheus.server import BadRequestError, Request, Response, _receive, read_request

HOST = b"\r\nHost: localhost"
END = b"\r\n\r\n"
REQUEST = b"GET /metrics?name=a HTTP/1.1\r\nHost: localhost:9464\r\nACCEPT: text/plain\r\nAccept: */*\r\n\r\n"


def test_a_request_is_taken_apart() -> None:
    headers = {"host": "localhost:9464", "accept": "text/plain, */*"}
    assert read_request(REQUEST) == Request("GET", "/metrics", headers, "localhost:9464", "name=a")


@pytest.mark.parametrize("target", ["http://localhost:9464/metrics", "//localhost/metrics", "http://["])
def test_an_address_in_the_target_is_a_path_that_is_not_there(target: str) -> None:
    request = read_request(f"GET {target} HTTP/1.1\r\nHost: elsewhere\r\n\r\n".encode())
    assert (request.path, request.host) == (target, "elsewhere")


def test_http_1_0_needs_no_host() -> None:
    assert read_request(b"GET / HTTP/1.0\r\n\r\n").host == ""


@pytest.mark.parametrize(
    ("head", "goes_on", "has_body"),
    [
        (b"GET / HTTP/1.1" + HOST, True, False),
        (b"POST / HTTP/1.1\r\nContent-Length: 0" + HOST, True, False),
        (b"GET / HTTP/1.0", False, False),
        (b"GET / HTTP/1.1\r\nConnection: Close" + HOST, False, False),
        (b"GET / HTTP/1.1\r\nConnection: upgrade,close" + HOST, False, False),
        (b"POST / HTTP/1.1\r\nContent-Length: 3" + HOST, False, True),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked" + HOST, False, True),
    ],
)
def test_a_connection_ends_where_the_client_says_so_or_sends_a_body(
    head: bytes, goes_on: bool, has_body: bool
) -> None:
    request = read_request(head + END)
    assert (request.may_be_followed, request.has_body) == (goes_on, has_body)


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"\x16\x03\x01\x02\x00",
        b"GET /metrics",
        b"GET / HTTP/2",
        b"PRI * HTTP/2.0",
        b"GET  / HTTP/1.1" + HOST,
        b"GET / HTTP/1.1",
        b"GET / HTTP/1.1" + HOST + HOST,
        b"GET / HTTP/1.1\r\nno colon" + HOST,
        b"GET / HTTP/1.1\r\nname : a" + HOST,
        b"GET / HTTP/1.1\r\n: a" + HOST,
        b"GET / HTTP/1.1\r\na: b\0c" + HOST,
        b"GET / HTTP/1.1\r\na:" + b" " * 10_000 + b"\x0b" + HOST,
        b"GET / HTTP/1.1\r\na: b\r\n c: d" + HOST,
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2" + HOST,
        b"POST / HTTP/1.1\r\nContent-Length: " + b"9" * 5_000 + HOST,
        b"POST / HTTP/1.1\r\nContent-Length: \xb2" + HOST,
        b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip" + HOST,
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 0" + HOST,
        b"GET / HTTP/1.1\nHost: localhost",
        b"GET / HTTP/1.1\r\nX: a\nAuthorization: b" + HOST,
        b"GET / HTTP/1.1\r\nX: a\rAuthorization: b" + HOST,
        b"GET / HTTP/1.1" + HOST + b"\r",
        b"\nGET / HTTP/1.1" + HOST,
    ],
)
def test_what_is_no_request_is_refused_in_one_line(head: bytes) -> None:
    with pytest.raises(BadRequestError):
        read_request(head + END)

    async def answered() -> Request | Response | None:
        reader = asyncio.StreamReader()
        reader.feed_data(head + END)
        return await _receive(reader, 5.0)

    response = asyncio.run(answered())
    assert isinstance(response, Response)
    assert response.body.endswith(b"\n")
    assert response.body.count(b"\n") == 1
    assert len(response.body) <= 201


@given(st.one_of(st.binary(min_size=1), st.binary().map(lambda rest: REQUEST[:40] + rest)))
def test_any_bytes_are_a_request_or_refused(sent: bytes) -> None:
    with suppress(BadRequestError):
        assert "?" not in read_request(sent + END).path


def test_an_answer_says_its_length() -> None:
    response = Response(HTTPStatus.OK, b"12345", {"Content-Type": "text/plain"})
    head = response.head(closes=False)
    assert head.startswith(b"HTTP/1.1 200 OK\r\nDate: ")
    assert head.endswith(b"Content-Type: text/plain\r\nContent-Length: 5\r\n\r\n")
    assert response.head(closes=True).endswith(b"Content-Length: 5\r\nConnection: close\r\n\r\n")
