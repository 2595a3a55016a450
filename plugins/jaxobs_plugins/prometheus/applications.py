"""WSGI and ASGI applications that serve the agent's /metrics from the user's own web server.

They run in the training process, so they render nothing: they fetch the agent's response over loopback. The agent
decides who may read it: the client's token is passed on, and requests from this process have no privilege.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from jaxobs.plugin.files import open_regular
from jaxobs_plugins.prometheus.background_call import BackgroundCall, NoAnswerError
from jaxobs_plugins.prometheus.credentials.files import MOST_BYTES

if TYPE_CHECKING:
    from ssl import SSLContext

TIMEOUT_SECONDS = 2.0
"""Seconds after which the agent is taken not to answer; it normally answers from memory in milliseconds."""

_PASSED_ON = ("Accept", "Accept-Encoding", "Authorization")
_RETURNED = ("Content-Type", "Content-Encoding", "Vary", "WWW-Authenticate")


class HasAddress(Protocol):
    """Anything that knows the URL of the agent's metrics, such as what `jaxobs.instrument()` returns."""

    @property
    def address(self) -> str | None:
        """None where there is no agent that serves."""


AddressSource = str | None | HasAddress | Callable[[], str | None]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
StartResponse = Callable[[str, list[tuple[str, str]]], object]


class _Answer(NamedTuple):
    status: HTTPStatus
    headers: list[tuple[str, str]]
    body: bytes


def wsgi_application(
    address: AddressSource,
) -> Callable[[Mapping[str, Any], StartResponse], Iterable[bytes]]:
    """A WSGI application that answers each GET with the agent's metrics.

    `address` is the URL of the agent's metrics, or what has or returns it at each request: `obs` will do.
    The answer is 503 with one line where the agent is not there.
    """
    forwarder = _Forwarder(address)

    def application(environ: Mapping[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        method = environ["REQUEST_METHOD"]
        wanted = {name: environ.get("HTTP_" + name.upper().replace("-", "_"), "") for name in _PASSED_ON}
        status, headers, body = forwarder.answer(method, wanted)
        start_response(f"{status.value} {status.phrase}", headers)
        return [] if method == "HEAD" else [body]

    return application


def asgi_application(address: AddressSource) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    """An ASGI application that does the same as `wsgi_application`, on asyncio, without blocking the event loop."""
    forwarder = _Forwarder(address)

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        if scope["type"] != "http":
            raise ValueError(f"jaxobs metrics are served over http, not {scope['type']}")
        received = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        wanted = {name: received.get(name.lower(), "") for name in _PASSED_ON}
        status, headers, body = await asyncio.to_thread(forwarder.answer, scope["method"], wanted)
        encoded = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        await send({"type": "http.response.start", "status": status.value, "headers": encoded})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    return application


async def _live(receive: Receive, send: Send) -> None:
    while True:
        event = (await receive())["type"]
        await send({"type": f"{event}.complete"})
        if event == "lifespan.shutdown":
            return


class _Forwarder:
    """Forwards one application's requests to the agent."""

    def __init__(self, source: AddressSource) -> None:
        self._source = source
        # The file may be on a network mount that hangs, and the user's web server must not hang with it.
        self._certificate = BackgroundCall(self._read_certificate, "jaxobs-certificate")

    def answer(self, method: str, wanted: Mapping[str, str]) -> _Answer:
        if method not in {"GET", "HEAD"}:
            return _line(HTTPStatus.METHOD_NOT_ALLOWED, "use GET or HEAD", ("Allow", "GET, HEAD"))
        address = self._address()
        if address is None:
            text = "jaxobs serves no metrics in this process (see `jaxobs check`)"
            return _line(HTTPStatus.SERVICE_UNAVAILABLE, text)
        try:
            given = {name: value for name, value in wanted.items() if value}
            return _fetch(address, given, self._context)
        except NoAnswerError as silent:
            text = f"the certificate {_certificate_of(self._source)} cannot be read: {silent}"
        except (OSError, ValueError) as error:
            text = f"the jaxobs agent at {address} does not answer: {error}"
        return _line(HTTPStatus.SERVICE_UNAVAILABLE, text)

    def _address(self) -> str | None:
        if self._source is None or isinstance(self._source, str):
            return self._source
        return self._source() if callable(self._source) else self._source.address

    def _context(self) -> SSLContext:
        """A TLS context that trusts the agent's own certificate, or for a bare address what the system trusts."""
        import ssl

        if _certificate_of(self._source) is None:
            return ssl.create_default_context()
        from jaxobs_plugins.prometheus.credentials.certificate import trusting

        return trusting(self._certificate.result(TIMEOUT_SECONDS))

    def _read_certificate(self) -> str:
        path = _certificate_of(self._source)
        assert path is not None
        with open_regular(path) as file:
            return file.read(MOST_BYTES).decode("ascii", "replace")


def _fetch(address: str, headers: Mapping[str, str], context: Callable[[], SSLContext]) -> _Answer:
    """Fetch from the agent, without the proxy that `urllib.request` would use. Raises OSError or ValueError."""
    # Imported here, because it loads `ssl` and `email`, which only requests for metrics need.
    from http.client import HTTPConnection, HTTPException, HTTPSConnection

    parts = urlsplit(address)
    if parts.scheme not in {"http", "https"} or parts.hostname is None:
        raise ValueError("not an http:// or https:// URL")
    connection = (
        HTTPConnection(parts.hostname, parts.port, timeout=TIMEOUT_SECONDS)
        if parts.scheme == "http"
        else HTTPSConnection(parts.hostname, parts.port, timeout=TIMEOUT_SECONDS, context=context())
    )
    try:
        connection.request("GET", parts.path or "/", headers={"Accept-Encoding": "identity", **headers})
        response = connection.getresponse()
        body = response.read()
    except HTTPException as error:
        raise ValueError(f"no HTTP answer ({type(error).__name__})") from error
    finally:
        connection.close()
    returned = [(name, value) for name in _RETURNED if (value := response.headers.get(name)) is not None]
    return _Answer(HTTPStatus(response.status), [*returned, ("Content-Length", str(len(body)))], body)


def _certificate_of(source: AddressSource) -> Path | None:
    """The path of the certificate that the observer's agent presents; None where only an address was given."""
    return getattr(getattr(source, "settings", None), "metrics_tls_certificate", None)


def _line(status: HTTPStatus, text: str, *headers: tuple[str, str]) -> _Answer:
    body = " ".join(text.split()).encode() + b"\n"
    standard = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))]
    return _Answer(status, [*standard, *headers], body)
