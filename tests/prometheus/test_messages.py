from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs_plugins.prometheus.messages import (
    BadRequestError,
    Request,
    Response,
    accepts_gzip,
    parse_request,
    response_head,
)


def test_a_request_is_taken_apart() -> None:
    head = b"GET /metrics?name=a HTTP/1.1\r\nHost: localhost:9464\r\nACCEPT: text/plain\r\nAccept: */*"
    headers = {"host": "localhost:9464", "accept": "text/plain, */*"}
    assert parse_request(head) == Request("GET", "/metrics", headers, keep_alive=True, query="name=a")


def test_a_proxy_style_target_is_its_path() -> None:
    assert parse_request(b"GET http://localhost:9464/metrics HTTP/1.1").path == "/metrics"


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.0",
        b"GET / HTTP/1.1\r\nConnection: Close",
        b"POST / HTTP/1.1\r\nContent-Length: 3",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked",
    ],
)
def test_a_connection_ends_where_the_client_says_so_or_sends_a_body(head: bytes) -> None:
    assert not parse_request(head).keep_alive


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"\x16\x03\x01\x02\x00",
        b"GET /metrics",
        b"GET / HTTP/2",
        b"GET  / HTTP/1.1",
        b"GET / HTTP/1.1\r\nno colon",
        b"GET / HTTP/1.1\r\nfolded: a\r\n b: c",
        b"GET http://[ HTTP/1.1",
    ],
)
def test_what_is_no_request_is_refused(head: bytes) -> None:
    with pytest.raises(BadRequestError):
        parse_request(head)


@given(st.one_of(st.binary(), st.binary().map(lambda rest: b"GET /metrics HTTP/1.1\r\n" + rest)))
def test_any_bytes_are_a_request_or_refused(head: bytes) -> None:
    try:
        request = parse_request(head)
    except BadRequestError:
        return
    assert request.method.isalpha()
    assert "?" not in request.path


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        ("gzip", True),
        ("deflate, GZIP;q=0.5, br", True),
        ("x-gzip", True),
        ("", False),
        ("identity", False),
        ("gzip;q=0", False),
        ("gzip; q=0.000", False),
        ("gzip;q=0.001", True),
    ],
)
def test_gzip_is_sent_only_where_it_is_accepted(header: str, accepted: bool) -> None:
    assert accepts_gzip(header) is accepted


def test_a_response_says_its_length_and_whether_the_connection_lives_on() -> None:
    head = response_head(Response(HTTPStatus.OK, b"12345", {"Content-Type": "text/plain"}), keep_alive=True)
    assert head.startswith(b"HTTP/1.1 200 OK\r\nDate: ")
    assert head.endswith(b"Content-Type: text/plain\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n")
