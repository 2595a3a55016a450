"""Which path answers what. Pure, but for the page's cache."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from jaxobs_plugins.prometheus.messages import Request, Response, accepts_gzip, plain
from jaxobs_plugins.prometheus.render import negotiate

if TYPE_CHECKING:
    from jaxobs_plugins.prometheus.page import MetricsPage

METRICS_PATH = "/metrics"
HEALTH_PATH = "/-/healthy"


def answer(request: Request, page: MetricsPage) -> Response:
    """The response to `request`, from what `page` holds."""
    if request.path not in {METRICS_PATH, HEALTH_PATH, "/"}:
        return plain(HTTPStatus.NOT_FOUND, f"nothing here; the metrics are at {METRICS_PATH}")
    if request.method not in {"GET", "HEAD"}:
        return plain(HTTPStatus.METHOD_NOT_ALLOWED, "use GET or HEAD", {"Allow": "GET, HEAD"})
    if request.path == HEALTH_PATH:
        return plain(HTTPStatus.OK, "healthy")
    if request.path == "/":
        return plain(HTTPStatus.OK, f"jaxobs: the metrics of this training process are at {METRICS_PATH}")
    content_type = negotiate(request.headers.get("accept", ""))
    compressed = accepts_gzip(request.headers.get("accept-encoding", ""))
    headers = {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding"}
    if compressed:
        headers["Content-Encoding"] = "gzip"
    return Response(HTTPStatus.OK, page.body(content_type, compressed), headers)
