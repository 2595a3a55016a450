"""HTTP/1.1 messages: the head of a request into its parts, a response into bytes. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from email.utils import formatdate
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from http import HTTPStatus


class BadRequestError(ValueError):
    """What came is not the head of an HTTP/1.x request."""


@dataclass(frozen=True, slots=True)
class Request:
    """`path` without `query`; header names in lower case; `keep_alive`: another one may follow."""

    method: str
    path: str
    headers: dict[str, str]
    keep_alive: bool
    query: str = ""
    has_body: bool = False
    """It is not read, whatever it says."""


@dataclass(frozen=True, slots=True)
class Response:
    """`body` is the representation; it is not sent in the answer to a HEAD request, though its length is."""

    status: HTTPStatus
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


def plain(status: HTTPStatus, text: str, headers: dict[str, str] | None = None) -> Response:
    """A response of one line of text."""
    return Response(
        status, text.encode() + b"\n", {"Content-Type": "text/plain; charset=utf-8", **(headers or {})}
    )


def parse_request(head: bytes) -> Request:
    """`head` ends before the empty line. Raises BadRequestError.

    A request that announces a body is served, but its connection is not used again: the body is never read.
    """
    if not head:
        raise BadRequestError("the head of the request is empty or too long")
    first, *lines = head.decode("latin-1").split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1.") or not parts[0].isalpha():
        raise BadRequestError(f"not an HTTP/1.x request line: {first[:80]!r}")
    try:
        target = urlsplit(parts[1])
    except ValueError as error:
        raise BadRequestError(f"not a request target: {parts[1][:80]!r}") from error
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise BadRequestError(f"not a header: {line[:80]!r}")
        name, value = name.lower(), value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    close = "close" in headers.get("connection", "").lower()
    keep_alive = parts[2] == "HTTP/1.1" and not has_body and not close
    return Request(parts[0], target.path, headers, keep_alive, target.query, has_body)


def response_head(response: Response, keep_alive: bool) -> bytes:
    """Status line and headers, the empty line included."""
    lines = [
        f"HTTP/1.1 {response.status.value} {response.status.phrase}",
        f"Date: {formatdate(usegmt=True)}",
        *(f"{name}: {value}" for name, value in response.headers.items()),
        f"Content-Length: {len(response.body)}",
        f"Connection: {'keep-alive' if keep_alive else 'close'}",
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether an `Accept-Encoding` header allows gzip; weight 0 forbids it (RFC 9110, section 12.5.3)."""
    for part in accept_encoding.lower().split(","):
        coding, *parameters = (piece.strip() for piece in part.split(";"))
        if coding in {"gzip", "x-gzip"}:
            return not any(_is_zero_weight(parameter) for parameter in parameters)
    return False


def _is_zero_weight(parameter: str) -> bool:
    name, _, weight = parameter.partition("=")
    return name.strip() == "q" and weight.strip().strip("0") in {"", "."}
