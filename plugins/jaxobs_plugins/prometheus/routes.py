"""Which path answers what, and to whom. Pure, but for the page's cache and what is asked of the job."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from jaxobs_plugins.prometheus.hosts import AllowedHosts, refusal
from jaxobs_plugins.prometheus.messages import Request, Response, plain
from jaxobs_plugins.prometheus.negotiation import accepts_gzip, negotiate
from jaxobs_plugins.prometheus.profile_request import PROFILE_PATH, AskForProfile, answer_profile_request

if TYPE_CHECKING:
    from jaxobs_plugins.prometheus.credentials import Token
    from jaxobs_plugins.prometheus.page import MetricsPage

METRICS_PATH = "/metrics"
HEALTH_PATH = "/-/healthy"


def answer(
    request: Request,
    page: MetricsPage,
    hosts: AllowedHosts,
    token: Token | None = None,
    ask: AskForProfile | None = None,
) -> Response:
    """The response to `request`, from what `page` holds.

    With a `token`, who does not bring it learns nothing, not even which paths there are. Only with one can `ask` be
    called, which asks the job for a profiler window: whoever may read must not be able to slow the job. Without one,
    who asks under a name that is not among `hosts` learns nothing either: a web page cannot bring a token, but it can
    give our address a name of its own.
    """
    if token is None:
        if not hosts.admit(request.host):
            return plain(HTTPStatus.MISDIRECTED_REQUEST, refusal(request.host))
        return _answer_reader(request, page)
    if not token.admits(request.headers.get("authorization", "")):
        challenge = {"WWW-Authenticate": 'Bearer realm="jaxobs"'}
        return plain(HTTPStatus.UNAUTHORIZED, "bring the token: Authorization: Bearer …", challenge)
    if request.path == PROFILE_PATH:
        return answer_profile_request(request, ask)
    return _answer_reader(request, page)


def _answer_reader(request: Request, page: MetricsPage) -> Response:
    if request.path not in {METRICS_PATH, HEALTH_PATH, "/"}:
        if request.path == PROFILE_PATH:
            return plain(
                HTTPStatus.NOT_FOUND, "set JAXOBS_METRICS_TOKEN_FILE to allow asking for profiler windows"
            )
        return plain(HTTPStatus.NOT_FOUND, f"nothing here; the metrics are at {METRICS_PATH}")
    if request.method not in {"GET", "HEAD"}:
        return plain(HTTPStatus.METHOD_NOT_ALLOWED, "use GET or HEAD", {"Allow": "GET, HEAD"})
    if request.path == HEALTH_PATH:
        return plain(HTTPStatus.OK, "healthy")
    if request.path == "/":
        return plain(HTTPStatus.OK, f"jaxobs: the metrics of this training process are at {METRICS_PATH}")
    return _metrics(request, page)


def _metrics(request: Request, page: MetricsPage) -> Response:
    """The page, unless another process's was asked for: one that had this port before, as a target file said."""
    wanted = parse_qs(request.query).get("instance", [page.instance])
    if wanted != [page.instance]:
        return plain(HTTPStatus.GONE, "another process was here; these are not its metrics")
    content_type = negotiate(request.headers.get("accept", ""))
    compressed = accepts_gzip(request.headers.get("accept-encoding", ""))
    headers = {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding"}
    if compressed:
        headers["Content-Encoding"] = "gzip"
    return Response(HTTPStatus.OK, page.body(content_type, compressed), headers)
