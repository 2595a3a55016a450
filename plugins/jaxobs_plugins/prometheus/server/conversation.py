"""HTTP/1.1 with one client as bytes in and bytes out, by h11; does no input or output itself."""

from __future__ import annotations

from email.utils import formatdate

import h11

from jaxobs_plugins.prometheus.server.messages import BadRequestError, Request, Response, request_from

HEAD_BYTES = 16_384
"""Longest head of a request. Scrapers send a few hundred bytes; common web servers allow 8 KiB a line."""


class Conversation:
    """The requests of one client and their answers, one after the other."""

    def __init__(self) -> None:
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)

    def receive(self, data: bytes) -> None:
        """Take bytes that the client has sent, which must not be empty."""
        self._http.receive_data(data)

    def next_request(self) -> Request | None:
        """The next request; None where more bytes are needed. Raises BadRequestError, which may be answered once.

        A request that announces a body is served, but its connection is not used again, because the body is never read.
        """
        try:
            _check_line_ends(self._http.trailing_data[0])
            request = self._http.next_event()
            if not isinstance(request, h11.Request):
                return None
            has_body = not isinstance(self._http.next_event(), h11.EndOfMessage)
        except h11.RemoteProtocolError as error:
            raise BadRequestError(" ".join(str(error).split())[:200]) from error
        return request_from(request, has_body)

    def answer(self, response: Response, method: str = "GET") -> list[bytes]:
        """The bytes of the answer to the last request, or to the malformed one."""
        headers = [("Date", formatdate(usegmt=True)), *response.headers.items()]
        headers.append(("Content-Length", str(len(response.body))))
        if self._http.their_state is not h11.DONE:  # a body that is not read, or no request at all
            headers.append(("Connection", "close"))
        head = h11.Response(status_code=response.status.value, reason=response.status.phrase, headers=headers)
        pieces = [self._http.send(head) or b""]
        if method != "HEAD":
            pieces.append(self._http.send(h11.Data(data=response.body)) or b"")
        self._http.send(h11.EndOfMessage())
        return pieces

    def goes_on(self) -> bool:
        """Begin the next cycle if another request may follow; returns whether it may. Call it once per answer."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True


def _check_line_ends(received: bytes) -> None:
    """Raise BadRequestError where a line of the head received so far ends in LF or CR alone.

    h11 takes a lone LF for the end of a line. A proxy in front that takes it for a part of the line would see other
    headers (RFC 9112, section 2.2, leaves it to the server).
    """
    end = received.find(b"\r\n\r\n")
    head = received if end < 0 else received[: end + 2]
    ends = head.count(b"\r\n")
    if head.count(b"\n") != ends or head.count(b"\r") - head.endswith(b"\r") != ends:
        raise BadRequestError("a line of the head does not end in CR LF")
