"""/metrics for the user's own web server: applications that pass on what the agent serves.

They run in the training process, so they render nothing: they fetch the agent's bytes over loopback. The agent decides
who may have them: a client's token is passed on, and nobody is let in for being here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from jaxobs.plugin.guard import raised_by_signal_handler

if TYPE_CHECKING:
    from pathlib import Path
    from ssl import SSLContext

TIMEOUT_SECONDS = 2.0
"""The agent answers in milliseconds from what it holds; one that has not by then does not answer."""

_PASSED_ON = ("Accept", "Accept-Encoding", "Authorization")
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
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

    def application(environ: Mapping[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        method = environ["REQUEST_METHOD"]
        wanted = {name: environ.get("HTTP_" + name.upper().replace("-", "_"), "") for name in _PASSED_ON}
        status, headers, body = _answer(method, address, wanted)
        start_response(f"{status.value} {status.phrase}", headers)
        return [] if method == "HEAD" else [body]

    return application


def asgi_application(address: AddressSource) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    """The same as `wsgi_application` for ASGI servers on asyncio; their event loop is not blocked."""

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
        status, headers, body = await asyncio.to_thread(_answer, scope["method"], address, wanted)
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


def _answer(method: str, source: AddressSource, wanted: Mapping[str, str]) -> _Answer:
    if method not in {"GET", "HEAD"}:
        return _line(HTTPStatus.METHOD_NOT_ALLOWED, "use GET or HEAD", ("Allow", "GET, HEAD"))
    address = _resolve(source)
    if address is None:
        return _line(
            HTTPStatus.SERVICE_UNAVAILABLE, "jaxobs serves no metrics in this process (see `jaxobs check`)"
        )
    try:
        given = {name: value for name, value in wanted.items() if value}
        return _fetch(address, given, _certificate_of(source))
    except (OSError, ValueError) as error:
        if raised_by_signal_handler(error):  # a server may run this on the main thread
            raise
        return _line(
            HTTPStatus.SERVICE_UNAVAILABLE, f"the jaxobs agent at {address} does not answer: {error}"
        )


def _resolve(source: AddressSource) -> str | None:
    if source is None or isinstance(source, str):
        return source
    return source() if callable(source) else source.address


def _fetch(address: str, headers: Mapping[str, str], certificate: Path | None) -> _Answer:
    """Raises OSError or ValueError. `urllib.request` would go through the environment's proxy."""
    # Here, because it loads `ssl` and `email`: only where metrics are asked for.
    from http.client import HTTPConnection, HTTPException, HTTPSConnection

    parts = urlsplit(address)
    if parts.scheme not in {"http", "https"} or parts.hostname is None:
        raise ValueError("not an http:// or https:// URL")
    connection = (
        HTTPConnection(parts.hostname, parts.port, timeout=TIMEOUT_SECONDS)
        if parts.scheme == "http"
        else HTTPSConnection(
            parts.hostname, parts.port, timeout=TIMEOUT_SECONDS, context=_trusting(certificate)
        )
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
    """The one that the observer's agent shows; None where only an address was given."""
    return getattr(getattr(source, "settings", None), "metrics_tls_certificate", None)


def _trusting(certificate: Path | None) -> SSLContext:
    """Trusts that very certificate, whoever signed it and whatever names are in it; without one, the system's."""
    import ssl

    if certificate is None:
        return ssl.create_default_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    text = certificate.read_text(encoding="ascii", errors="replace")
    begin, end = text.find(_BEGIN), text.find(_END)
    # The first alone, which is the agent's own: others in a chain would vouch for strangers too.
    context.load_verify_locations(cadata=text[begin : end + len(_END)])
    return context


def _line(status: HTTPStatus, text: str, *headers: tuple[str, str]) -> _Answer:
    body = " ".join(text.split()).encode() + b"\n"
    standard = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))]
    return _Answer(status, [*standard, *headers], body)
