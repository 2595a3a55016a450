"""Routes requests to answers by path and authorization. Pure, but for the page's cache and requests to the job."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus
from urllib.parse import parse_qs, parse_qsl

from jaxobs.model.profile import checked_seconds
from jaxobs_plugins.prometheus.credentials import Token
from jaxobs_plugins.prometheus.pages.live import PAGE_PATH, SNAPSHOT_PATH, Live
from jaxobs_plugins.prometheus.pages.metrics import MetricsPage
from jaxobs_plugins.prometheus.pages.negotiation import accepts_gzip, negotiate
from jaxobs_plugins.prometheus.server.hosts import AllowedHosts, refusal
from jaxobs_plugins.prometheus.server.messages import Request, Response, plain

METRICS_PATH = "/metrics"
HEALTH_PATH = "/-/healthy"
PROFILE_PATH = "/profile"
DEFAULT_PROFILE_SECONDS = 1.0

_COMPRESSION_LEVEL = 1  # as for the metrics: most of the gain, in half the time
_FLAGS = {"true": True, "1": True, "false": False, "0": False}

AskForProfile = Callable[[float, bool], str | None]
"""Passes `seconds` and `keep` on to the job without waiting for it. Returns None, or why the job was not asked."""


def answer(
    request: Request,
    page: MetricsPage,
    hosts: AllowedHosts,
    token: Token | None = None,
    ask: AskForProfile | None = None,
    live: Live | None = None,
) -> Response:
    """The response to `request`, from what `page` and `live` hold.

    With a `token`, clients that do not bring it learn nothing, not even which paths exist. Only with one can `ask` be
    called, which asks the job for a profiler window: permission to read must not be enough to slow the job. Without
    one, requests under a name that is not among `hosts` learn nothing either: a web page can give our address a name of
    its own (DNS rebinding), though it could not bring a token.
    """
    if token is None:
        if not hosts.admit(request.host):
            return plain(HTTPStatus.MISDIRECTED_REQUEST, refusal(request.host))
        return _answer_reader(request, page, live)
    authorization = request.headers.get("authorization", "")
    if token.admits(authorization):
        if request.path == PROFILE_PATH:
            return _answer_profile_request(request, ask)
        return _answer_reader(request, page, live)
    if token.admits_browser(authorization) and request.method in {"GET", "HEAD"}:
        return _answer_reader(request, page, live)
    return _ask_for_token(request)


def _ask_for_token(request: Request) -> Response:
    """Refuse a request without the token. Browsers are asked for Basic (RFC 7617): any name, the token as password.

    The browser then prompts its user, and the token is neither in an address, which would stay in histories, logs and
    links, nor in a cookie. But a browser also sends such a password with requests that other web pages make: it
    therefore permits reading, whose answers those pages cannot see, and no POST.
    """
    reads_pages = "text/html" in request.headers.get("accept", "")
    challenge = (
        'Basic realm="jaxobs: any name, and the token as password"'
        if reads_pages
        else 'Bearer realm="jaxobs"'
    )
    text = "bring the token: Authorization: Bearer …"
    return plain(HTTPStatus.UNAUTHORIZED, text, {"WWW-Authenticate": challenge, "Vary": "Accept"})


def _answer_reader(request: Request, page: MetricsPage, live: Live | None) -> Response:
    if request.path not in {METRICS_PATH, HEALTH_PATH, PAGE_PATH, SNAPSHOT_PATH}:
        if request.path == PROFILE_PATH:
            return plain(
                HTTPStatus.NOT_FOUND, "set JAXOBS_METRICS_TOKEN_FILE to allow asking for profiler windows"
            )
        return plain(HTTPStatus.NOT_FOUND, f"nothing here; the metrics are at {METRICS_PATH}")
    if request.method not in {"GET", "HEAD"}:
        return plain(HTTPStatus.METHOD_NOT_ALLOWED, "use GET or HEAD", {"Allow": "GET, HEAD"})
    if request.path == HEALTH_PATH:
        return plain(HTTPStatus.OK, "healthy")
    return _of_this_process(request, page, live or Live())


def _of_this_process(request: Request, page: MetricsPage, live: Live) -> Response:
    """Answer with this process's data, or 410 where the request names another process that had this port before."""
    wanted = parse_qs(request.query).get("instance", [page.instance])
    if wanted != [page.instance]:
        return plain(HTTPStatus.GONE, "another process was here; these are not its metrics")
    if request.path == METRICS_PATH:
        return _metrics(request, page)
    return _compressed(request, live.page(request) if request.path == PAGE_PATH else live.snapshot())


def _compressed(request: Request, response: Response) -> Response:
    """The response, compressed with gzip where the client accepts that."""
    if not accepts_gzip(request.headers.get("accept-encoding", "")):
        return response
    body = gzip.compress(response.body, _COMPRESSION_LEVEL, mtime=0)
    return replace(response, body=body, headers={**response.headers, "Content-Encoding": "gzip"})


def _metrics(request: Request, page: MetricsPage) -> Response:
    content_type = negotiate(request.headers.get("accept", ""))
    compressed = accepts_gzip(request.headers.get("accept-encoding", ""))
    headers = {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding"}
    if compressed:
        headers["Content-Encoding"] = "gzip"
    return Response(HTTPStatus.OK, page.body(content_type, compressed), headers)


def _answer_profile_request(request: Request, ask: AskForProfile | None) -> Response:
    """Ask the job for a window. The status is 202 if it was asked, though it may still skip the window.

    `jaxobs_profile_windows_total` shows what became of it. 400: invalid parameters; 409: not possible at present; 503:
    the job cannot be asked.
    """
    if request.method != "POST":
        return plain(HTTPStatus.METHOD_NOT_ALLOWED, "use POST", {"Allow": "POST"})
    try:
        seconds, keep = _parameters(request)
    except ValueError as error:
        return plain(HTTPStatus.BAD_REQUEST, str(error))
    if ask is None:
        return plain(HTTPStatus.SERVICE_UNAVAILABLE, "this job cannot be asked for a profiler window")
    try:
        refusal = ask(seconds, keep)
    except Exception as error:  # noqa: BLE001  # the client is told, whatever went wrong
        text = f"the job could not be asked: {type(error).__name__}: {error}"
        return plain(HTTPStatus.SERVICE_UNAVAILABLE, " ".join(text.split()))
    if refusal:
        return plain(HTTPStatus.CONFLICT, " ".join(refusal.split()))
    body = json.dumps({"asked": True, "seconds": seconds, "keep": keep}).encode() + b"\n"
    return Response(HTTPStatus.ACCEPTED, body, {"Content-Type": "application/json"})


def _parameters(request: Request) -> tuple[float, bool]:
    """The seconds and whether to keep the trace. Raises ValueError with a sentence for the client."""
    if request.has_body:
        raise ValueError("a body is not read: say it in the address, as in /profile?seconds=2&keep=true")
    given: dict[str, str] = {}
    for name, value in parse_qsl(request.query, keep_blank_values=True):
        if name not in {"seconds", "keep"} or name in given:
            raise ValueError(f"{name!r} is no parameter, or is there twice: use seconds and keep")
        given[name] = value
    return checked_seconds(given.get("seconds", str(DEFAULT_PROFILE_SECONDS))), _flag(
        given.get("keep", "false")
    )


def _flag(text: str) -> bool:
    if text.lower() not in _FLAGS:
        raise ValueError(f"keep={text!r} is neither true nor false")
    return _FLAGS[text.lower()]
