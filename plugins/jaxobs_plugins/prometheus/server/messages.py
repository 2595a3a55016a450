"""Requests and responses of HTTP/1.1 as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from http import HTTPStatus

    import h11


class BadRequestError(ValueError):
    """The bytes received are not the head of an HTTP/1.x request."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request. `path` is without `query`, header names are in lower case, `host` is the name and port it used."""

    method: str
    path: str
    headers: dict[str, str]
    host: str = ""
    query: str = ""
    has_body: bool = False
    """Whether a body was announced; it is never read."""


@dataclass(frozen=True, slots=True)
class Response:
    """A response. The answer to a HEAD request has the length of `body` but not the body itself."""

    status: HTTPStatus
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


def plain(status: HTTPStatus, text: str, headers: dict[str, str] | None = None) -> Response:
    """A response of one line of text."""
    return Response(
        status, text.encode() + b"\n", {"Content-Type": "text/plain; charset=utf-8", **(headers or {})}
    )


def request_from(event: h11.Request, has_body: bool) -> Request:
    """The request that h11 has read. Raises BadRequestError."""
    if not event.http_version.startswith(b"1."):
        raise BadRequestError(f"not HTTP/1.x: HTTP/{event.http_version.decode('latin-1')}")
    headers: dict[str, str] = {}
    for raw_name, raw_value in event.headers:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    text = event.target.decode("latin-1")
    try:
        target = urlsplit(text)
    except ValueError as error:
        raise BadRequestError(f"not a request target: {text[:80]!r}") from error
    # An authority in the target takes precedence over the Host header (RFC 9112, section 3.2.2).
    host = target.netloc or headers.get("host", "")
    return Request(event.method.decode("latin-1"), target.path, headers, host, target.query, has_body)
