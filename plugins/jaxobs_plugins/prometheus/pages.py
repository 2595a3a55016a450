"""What is served at each path: the metrics, the live page, the snapshot as JSON, and requests for profiler windows."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qs, parse_qsl

from jaxobs.model.clock import NANOSECONDS, wall_now
from jaxobs.model.profile import checked_seconds
from jaxobs.model.snapshot import SnapshotData, absent_document
from jaxobs.report import pprof
from jaxobs.report.history import History
from jaxobs.report.page import page, policy
from jaxobs.report.view import Rank, View
from jaxobs_plugins.prometheus.access import AllowedHosts, Token, refusal
from jaxobs_plugins.prometheus.render import accepts_gzip, negotiate, render
from jaxobs_plugins.prometheus.server import Request, Response, plain

PAGE_PATH: Final = "/"
SNAPSHOT_PATH: Final = "/snapshot"
PPROF: Final = {
    "/flame.pb.gz": (pprof.of_device, "no profiler window has been read yet"),
    "/host.pb.gz": (pprof.of_host, "the main thread's stack has not been sampled yet"),
}
"""Time by call path for `go tool pprof`, by the path it is served at; and why there is none."""
SNAPSHOT_VERSION: Final = 1
"""Version of the JSON format. A change that would mislead existing readers raises it; new keys do not."""
METRICS_PATH = "/metrics"
HEALTH_PATH = "/-/healthy"
PROFILE_PATH = "/profile"
DEFAULT_PROFILE_SECONDS = 1.0

_COMPRESSION_LEVEL = 1  # of 959 kB (10 000 series) it makes 109 kB in 2.7 ms; level 6 makes 100 kB in 5.5 ms
_MAX_KEPT = 8
"""Most pages of one snapshot that are kept, one for each loop that somebody looks at."""
_FLAGS = {"true": True, "1": True, "false": False, "0": False}
_SAFE: Final = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Headers that keep other web pages from showing, reading or timing what is served, and links from sending a referrer."""

AskForProfile = Callable[[float, bool], str | None]
"""Passes `seconds` and `keep` on to the job without waiting for it. Returns None, or why the job was not asked."""


@dataclass(frozen=True, slots=True)
class _Shown:
    """A snapshot, when it came (wall-clock nanoseconds), and what has been rendered of it."""

    snapshot: SnapshotData
    resource: Mapping[str, str]
    at: int = field(default_factory=wall_now)
    metrics: dict[str, bytes] = field(default_factory=dict)
    pages: dict[str | None, bytes] = field(default_factory=dict)


class Pages:
    """The pages of the last snapshot, each rendered when it is first requested.

    `show` may be called on another thread than the rest, which is the server's.
    """

    def __init__(self, resource: Mapping[str, str], ranks: Callable[[], tuple[Rank, ...]] = tuple) -> None:
        """`ranks`: the processes beside this one, as far as they are known now."""
        self._ranks = ranks
        self._history, self._noting = History(), threading.Lock()
        nothing = absent_document("the first snapshot is on its way")
        self._shown = _Shown(SnapshotData(0, nothing), dict(resource))

    def show(self, snapshot: SnapshotData, resource: Mapping[str, str] | None = None) -> None:
        """Show this snapshot from now on, and a new resource if there is one."""
        at = snapshot.time / NANOSECONDS
        if self._history.is_due(at):
            with self._noting:
                self._history.add(at, snapshot.document)
        self._shown = _Shown(snapshot, self._shown.resource if resource is None else dict(resource))

    @property
    def instance(self) -> str:
        """The `service.instance.id` of this process; empty if the resource has none."""
        return self._shown.resource.get("service.instance.id", "")

    def metrics(self, content_type: str) -> bytes:
        """The page /metrics in the format `content_type` of `render`."""
        shown = self._shown
        if content_type not in shown.metrics:
            shown.metrics[content_type] = render(shown.snapshot.families, shown.resource, content_type)
        return shown.metrics[content_type]

    def live(self, loop: str | None = None) -> bytes:
        """The live page as an HTML document that shows `loop` in full."""
        shown = self._shown
        document, pages = shown.snapshot.document, shown.pages
        chosen = View(document, wanted_loop=loop).loop  # a real loop, whatever is requested
        if chosen not in pages:
            if len(pages) >= _MAX_KEPT:
                pages.clear()
            with self._noting:
                trend = self._history.trend()
            pages[chosen] = page(View(document, trend, self._ranks(), chosen)).encode()
        return pages[chosen]

    def snapshot(self) -> bytes:
        """The snapshot as JSON: docs/reference/snapshot.md says what is in it."""
        body: dict[str, Any] = {
            "version": SNAPSHOT_VERSION,
            "unix_seconds": self._shown.at / NANOSECONDS,
            "ranks": [{"name": rank.name, "address": rank.address} for rank in self._ranks()],
            "snapshot": self._shown.snapshot.document,
        }
        return json.dumps(body, allow_nan=False, separators=(",", ":")).encode() + b"\n"

    def profile(self, path: str) -> bytes | None:
        """What PPROF makes for this path of the snapshot; None if there is nothing yet."""
        return PPROF[path][0](self._shown.snapshot.document)


def answer(
    request: Request,
    pages: Pages,
    hosts: AllowedHosts,
    token: Token | None = None,
    ask: AskForProfile = lambda seconds, keep: None,
) -> Response:
    """The response to `request`.

    With a `token`, clients that do not bring it learn nothing, not even which paths exist. Only with one can `ask` be
    called, which asks the job for a profiler window: permission to read must not be enough to slow the job. Without
    one, requests under a name that is not among `hosts` learn nothing either: a web page can give our address a name of
    its own (DNS rebinding), though it could not bring a token.
    """
    if token is None:
        if not hosts.admit(request.host):
            return plain(HTTPStatus.MISDIRECTED_REQUEST, refusal(request.host))
        return _answer_reader(request, pages)
    authorization = request.headers.get("authorization", "")
    only_reads = token.admits_browser(authorization) and request.method in {"GET", "HEAD"}
    if not (token.admits(authorization) or only_reads):
        return _ask_for_token(request)
    if request.path == PROFILE_PATH:
        return _answer_profile_request(request, ask)
    return _answer_reader(request, pages)


def _ask_for_token(request: Request) -> Response:
    """Refuse a request without the token. Browsers are asked for Basic (RFC 7617): any name, the token as password.

    The browser then prompts its user, and the token is neither in an address, which would stay in histories, logs and
    links, nor in a cookie. But a browser also sends such a password with requests that other web pages make: it
    therefore permits reading, whose answers those pages cannot see, and no POST.
    """
    challenge = 'Bearer realm="jaxobs"'
    if "text/html" in request.headers.get("accept", ""):
        challenge = 'Basic realm="jaxobs: any name, and the token as password"'
    text = "bring the token: Authorization: Bearer …"
    return plain(HTTPStatus.UNAUTHORIZED, text, {"WWW-Authenticate": challenge, "Vary": "Accept"})


def _answer_reader(request: Request, pages: Pages) -> Response:
    if request.path not in {METRICS_PATH, HEALTH_PATH, PAGE_PATH, SNAPSHOT_PATH, *PPROF}:
        text = f"nothing here; the metrics are at {METRICS_PATH}"
        if request.path == PROFILE_PATH:
            text = "set JAXOBS_METRICS_TOKEN_FILE to allow asking for profiler windows"
        return plain(HTTPStatus.NOT_FOUND, text)
    if request.method not in {"GET", "HEAD"}:
        return plain(HTTPStatus.METHOD_NOT_ALLOWED, "use GET or HEAD", {"Allow": "GET, HEAD"})
    if request.path == HEALTH_PATH:
        return plain(HTTPStatus.OK, "healthy")
    query = parse_qs(request.query)
    if query.get("instance", [pages.instance]) != [pages.instance]:
        return plain(HTTPStatus.GONE, "another process was here; these are not its metrics")
    return _compressed(request, _page(request, pages, query.get("loop", [None])[-1]))


def _compressed(request: Request, response: Response) -> Response:
    """The response, compressed with gzip where the client accepts that."""
    if not accepts_gzip(request.headers.get("accept-encoding", "")):
        return response
    body = gzip.compress(response.body, _COMPRESSION_LEVEL, mtime=0)
    return replace(response, body=body, headers={**response.headers, "Content-Encoding": "gzip"})


def _page(request: Request, pages: Pages, loop: str | None) -> Response:
    """The metrics, the live page with `loop` in full, a profile, or the snapshot."""
    if request.path == METRICS_PATH:
        content_type = negotiate(request.headers.get("accept", ""))
        headers = {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding"}
        return Response(HTTPStatus.OK, pages.metrics(content_type), headers)
    if request.path == PAGE_PATH:
        headers = {"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": policy()}
        return Response(HTTPStatus.OK, pages.live(loop), {**headers, **_SAFE})
    if request.path in PPROF:
        profiled = pages.profile(request.path)
        if profiled is None:
            return plain(HTTPStatus.NOT_FOUND, PPROF[request.path][1])
        return Response(HTTPStatus.OK, profiled, {"Content-Type": "application/octet-stream", **_SAFE})
    return Response(HTTPStatus.OK, pages.snapshot(), {"Content-Type": "application/json", **_SAFE})


def _answer_profile_request(request: Request, ask: AskForProfile) -> Response:
    """Ask the job for a window. The status is 202 if it was asked, though it may still skip the window.

    `jaxobs_profile_windows_total` shows what became of it. 400: invalid parameters; 409: not possible at present.
    """
    if request.method != "POST":
        return plain(HTTPStatus.METHOD_NOT_ALLOWED, "use POST", {"Allow": "POST"})
    try:
        seconds, keep = _parameters(request)
    except ValueError as error:
        return plain(HTTPStatus.BAD_REQUEST, str(error))
    if reason := ask(seconds, keep):
        return plain(HTTPStatus.CONFLICT, " ".join(reason.split()))
    body = json.dumps({"asked": True, "seconds": seconds, "keep": keep}).encode() + b"\n"
    return Response(HTTPStatus.ACCEPTED, body, {"Content-Type": "application/json"})


def _parameters(request: Request) -> tuple[float, bool]:
    """The seconds and whether to keep the trace. Raises ValueError with a sentence for the client."""
    if request.has_body:
        raise ValueError("a body is not read: say it in the address, as in /profile?seconds=2&keep=true")
    given = dict(parse_qsl(request.query, keep_blank_values=True))
    for name in given.keys() - {"seconds", "keep"}:
        raise ValueError(f"{name!r} is no parameter: use seconds and keep")
    keep = given.get("keep", "false").lower()
    if keep not in _FLAGS:
        raise ValueError(f"keep={keep!r} is neither true nor false")
    return checked_seconds(given.get("seconds", DEFAULT_PROFILE_SECONDS)), _FLAGS[keep]
