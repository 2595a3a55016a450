"""Bytes in, requests and answers out, however the bytes are split."""

from http import HTTPStatus
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs_plugins.prometheus.server.conversation import MAX_HEAD_BYTES, Conversation
from jaxobs_plugins.prometheus.server.messages import BadRequestError, Request, Response

HOST = b"\r\nHost: localhost"
REQUEST = b"GET /metrics?name=a HTTP/1.1\r\nHost: localhost:9464\r\nACCEPT: text/plain\r\nAccept: */*\r\n\r\n"
OK = Response(HTTPStatus.OK, b"12345", {"Content-Type": "text/plain"})


def first_request(*pieces: bytes) -> Request | None:
    conversation = Conversation()
    request = None
    for piece in pieces:
        conversation.receive(piece)
        request = request or conversation.next_request()
    return request


def test_a_request_is_taken_apart() -> None:
    headers = {"host": "localhost:9464", "accept": "text/plain, */*"}
    assert first_request(REQUEST) == Request("GET", "/metrics", headers, "localhost:9464", "name=a")


def test_an_address_in_the_target_holds_whatever_host_says() -> None:
    request = first_request(b"GET http://localhost:9464/metrics HTTP/1.1\r\nHost: elsewhere\r\n\r\n")
    assert request is not None
    assert (request.path, request.host) == ("/metrics", "localhost:9464")


def test_http_1_0_needs_no_host() -> None:
    request = first_request(b"GET / HTTP/1.0\r\n\r\n")
    assert request is not None
    assert request.host == ""


@given(st.lists(st.integers(1, len(REQUEST) - 1), max_size=8))
def test_it_is_the_same_request_however_it_is_split(cuts: list[int]) -> None:
    bounds = [0, *sorted(set(cuts)), len(REQUEST)]
    pieces = [REQUEST[begin:end] for begin, end in pairwise(bounds)]
    assert first_request(*pieces) == first_request(REQUEST)
    assert first_request(*pieces[:-1]) is None


@pytest.mark.parametrize(
    ("head", "goes_on", "has_body"),
    [
        (b"GET / HTTP/1.1" + HOST, True, False),
        (b"POST / HTTP/1.1\r\nContent-Length: 0" + HOST, True, False),
        (b"GET / HTTP/1.0", False, False),
        (b"GET / HTTP/1.1\r\nConnection: Close" + HOST, False, False),
        (b"POST / HTTP/1.1\r\nContent-Length: 3" + HOST, False, True),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked" + HOST, False, True),
    ],
)
def test_a_connection_ends_where_the_client_says_so_or_sends_a_body(
    head: bytes, goes_on: bool, has_body: bool
) -> None:
    conversation = Conversation()
    conversation.receive(head + b"\r\n\r\n")
    request = conversation.next_request()
    assert request is not None
    assert request.has_body is has_body
    said = b"".join(conversation.answer(OK))
    assert conversation.goes_on() is goes_on
    assert (b"Connection: close" in said) is not goes_on


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
        b"GET / HTTP/1.1\r\na: b\0c" + HOST,
        b"GET / HTTP/1.1\r\na:" + b" " * 10_000 + b"\x0b" + HOST,
        b"GET / HTTP/1.1\r\na: b\r\n c: d" + HOST,
        b"GET http://[ HTTP/1.1" + HOST,
        b"GET http:///metrics HTTP/1.1" + HOST,
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2" + HOST,
        b"POST / HTTP/1.1\r\nContent-Length: " + b"9" * 5_000 + HOST,
        b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip" + HOST,
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 0" + HOST,
    ],
)
def test_what_is_no_request_is_refused_in_one_line(head: bytes) -> None:
    with pytest.raises(BadRequestError) as raised:
        first_request(head + b"\r\n\r\n")
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) <= 200


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\nHost: localhost\n\n",
        b"GET / HTTP/1.1\r\nHost: localhost\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\n\n",
        b"GET / HTTP/1.1\r\nX: a\nAuthorization: b\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: a\rAuthorization: b\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\r\n\r\n",
        b"\nGET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
@pytest.mark.parametrize("at_once", [True, False])
def test_a_lone_line_feed_or_carriage_return_ends_no_line(sent: bytes, at_once: bool) -> None:
    pieces = [sent] if at_once else [sent[index : index + 1] for index in range(len(sent))]
    with pytest.raises(BadRequestError, match="CR LF"):
        first_request(*pieces)


def test_a_line_feed_in_what_follows_the_head_is_not_looked_at() -> None:
    conversation = Conversation()
    conversation.receive(b"POST / HTTP/1.1\r\nContent-Length: 3" + HOST + b"\r\n\r\na\nb")
    assert conversation.next_request() is not None


def test_a_head_that_does_not_end_is_refused_before_it_fills_the_memory() -> None:
    conversation = Conversation()
    with pytest.raises(BadRequestError, match="too long"):  # noqa: PT012  # it is told where it becomes too long
        for _ in range(MAX_HEAD_BYTES):
            conversation.receive(b"GET / HTTP/1.1\r\nX: " + b"x" * 100)
            assert conversation.next_request() is None


@given(st.one_of(st.binary(min_size=1), st.binary().map(lambda rest: REQUEST[:40] + rest)), st.booleans())
def test_any_bytes_are_requests_or_refused_and_can_be_answered(sent: bytes, at_once: bool) -> None:
    conversation = Conversation()
    for piece in [sent] if at_once else [bytes([byte]) for byte in sent]:
        conversation.receive(piece)
        try:
            while (request := conversation.next_request()) is not None:
                assert "?" not in request.path
                assert conversation.answer(OK)
                if not conversation.goes_on():
                    return
        except BadRequestError:
            assert b"".join(conversation.answer(OK)).startswith(b"HTTP/1.1 200 OK\r\n")
            assert not conversation.goes_on()
            return


def test_requests_sent_at_once_are_read_one_after_the_other() -> None:
    conversation = Conversation()
    conversation.receive(REQUEST + REQUEST.replace(b"/metrics", b"/other"))
    for path in ("/metrics", "/other"):
        request = conversation.next_request()
        assert request is not None
        assert request.path == path
        conversation.answer(OK)
        assert conversation.goes_on()
    assert conversation.next_request() is None


def test_an_answer_says_its_length_and_carries_the_body_but_to_head() -> None:
    conversation = Conversation()
    conversation.receive(REQUEST)
    assert conversation.next_request() is not None
    head, body = conversation.answer(OK)
    assert head.startswith(b"HTTP/1.1 200 OK\r\nDate: ")
    assert head.endswith(b"Content-Type: text/plain\r\nContent-Length: 5\r\n\r\n")
    assert body is OK.body  # a large page is not copied
    conversation = Conversation()
    conversation.receive(REQUEST.replace(b"GET", b"HEAD"))
    request = conversation.next_request()
    assert request is not None
    [head] = conversation.answer(OK)
    assert b"Content-Length: 5\r\n" in head
    assert conversation.goes_on()
