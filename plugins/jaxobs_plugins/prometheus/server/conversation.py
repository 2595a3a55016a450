"""HTTP/1.1 with one client as bytes in and bytes out, by h11; does no input or output itself."""

from __future__ import annotations

import re
from email.utils import formatdate
from http import HTTPStatus

import h11

from jaxobs_plugins.prometheus.server.messages import BadRequestError, Request, Response, request_from

MAX_HEAD_BYTES = 16_384
"""Longest head of a request. Scrapers send a few hundred bytes; common web servers allow 8 KiB a line."""

MAX_HEADERS = 100
"""Most lines of headers: as many as Apache and Python's own server allow."""

# RFC 9110, section 5.5: no value has one. h11 would refuse it too, in quadratic time after a run of spaces.
_CONTROL_CHARACTER = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_LONG_LENGTH = re.compile(
    rb"\ncontent-length:[ \t]*\d{19}", re.IGNORECASE
)  # h11 would fail to convert the longest


class Conversation:
    """The requests of one client and their answers, one after the other."""

    def __init__(self) -> None:
        self._http = h11.Connection(h11.SERVER)
        self._to_head = False

    def receive(self, data: bytes) -> None:
        """Take bytes that the client has sent, which must not be empty."""
        self._http.receive_data(data)

    def next_request(self) -> Request | None:
        """The next request; None where more bytes are needed. Raises BadRequestError, which may be answered once.

        A request that announces a body is served, but its connection is not used again, because the body is never read.
        Nor is that of a refused request.
        """
        _check_head(self._http.trailing_data[0])
        try:
            event = self._http.next_event()
        except h11.RemoteProtocolError as error:
            raise BadRequestError(" ".join(str(error).split())[:200], error.error_status_hint) from error
        if not isinstance(event, h11.Request):
            return None
        self._to_head = event.method == b"HEAD"
        request = request_from(event)
        if not request.has_body:
            self._http.next_event()  # its end; unless this is read h11 takes no further request
        return request

    def answer(self, response: Response) -> list[bytes]:
        """The bytes of the answer to the last request, or to the malformed one."""
        headers = [("Date", formatdate(usegmt=True)), *response.headers.items()]
        headers.append(("Content-Length", str(len(response.body))))
        if self._http.their_state is not h11.DONE:  # a body that is not read, or a request that was refused
            headers.append(("Connection", "close"))
        head = h11.Response(status_code=response.status.value, reason=response.status.phrase, headers=headers)
        pieces = [self._http.send(head) or b""]
        if not self._to_head:
            pieces.append(self._http.send(h11.Data(data=response.body)) or b"")
        self._http.send(h11.EndOfMessage())
        return pieces

    def goes_on(self) -> bool:
        """Begin the next cycle if another request may follow; returns whether it may. Call it once per answer."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True


def _check_head(received: bytes) -> None:
    """Raise BadRequestError where the head received so far is too long, or proxies and h11 might read it differently."""
    end = received.find(b"\r\n\r\n")
    head = received if end < 0 else received[: end + 2]
    lines = head.count(b"\r\n")
    if len(head) > MAX_HEAD_BYTES or lines > MAX_HEADERS + 1:
        raise BadRequestError(
            f"the head is too long: more than {MAX_HEAD_BYTES} bytes or {MAX_HEADERS} headers",
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
        )
    # h11 takes a lone LF for the end of a line. A proxy in front that takes it for a part of the line would see other
    # headers (RFC 9112, section 2.2, leaves it to the server).
    if head.count(b"\n") != lines or head.count(b"\r") - head.endswith(b"\r") != lines:
        raise BadRequestError("a line of the head does not end in CR LF")
    if _CONTROL_CHARACTER.search(head):
        raise BadRequestError("a control character in the head")
    if b"\n " in head or b"\n\t" in head:
        raise BadRequestError("a header continues on a second line, which RFC 9112 no longer allows")
    if _LONG_LENGTH.search(head):
        raise BadRequestError("Content-Length is no number of bytes")
