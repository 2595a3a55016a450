"""Requests and responses of HTTP/1.1 as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import h11


class BadRequestError(ValueError):
    """The bytes received are no request that is served; the message is for the client."""

    def __init__(self, message: str, status: int = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(message)
        self.status = HTTPStatus(status)


@dataclass(frozen=True, slots=True)
class Request:
    """A request. `path` is without `query`, header names are in lower case, `host` is the name and port it used."""

    method: str
    path: str
    headers: dict[str, str]
    host: str = ""
    query: str = ""

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


def plain(status: HTTPStatus, text: str, headers: dict[str, str] | None = None) -> Response:
    """A response of one line of text."""
    return Response(
        status, text.encode() + b"\n", {"Content-Type": "text/plain; charset=utf-8", **(headers or {})}
    )


def request_from(event: h11.Request) -> Request:
    """The request that h11 has read. Raises BadRequestError."""
    if not event.http_version.startswith(b"1."):
        raise BadRequestError(f"not HTTP/1.x: HTTP/{event.http_version.decode('latin-1')}")
    headers: dict[str, str] = {}
    for raw_name, raw_value in event.headers:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    if "content-length" in headers and "transfer-encoding" in headers:
        # Whoever goes by the other of the two sees other requests in the bytes that follow (RFC 9112, section 6.1).
        raise BadRequestError("both Content-Length and Transfer-Encoding")
    authority, path, query = _target_parts(event.target.decode("latin-1"))
    # An authority in the target takes precedence over the Host header (RFC 9112, section 3.2.2).
    return Request(event.method.decode("latin-1"), path, headers, authority or headers.get("host", ""), query)


def _target_parts(target: str) -> tuple[str, str, str]:
    """The authority, path and query of a request target. Raises BadRequestError.

    A path that begins with two slashes has no authority: `urlsplit` would find one there, and a web page whose name is
    refused could ask for `//localhost/metrics`.
    """
    if not target.lower().startswith(("http://", "https://")):
        path, _, query = target.partition("?")
        return "", path, query
    try:
        parts = urlsplit(target)
    except ValueError as error:
        raise BadRequestError(f"not a request target: {target[:80]!r}") from error
    if not parts.netloc:
        raise BadRequestError(f"no host in the request target {target[:80]!r}")
    return parts.netloc, parts.path, parts.query
