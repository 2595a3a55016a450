"""The exporter `prometheus`: serves the last snapshot on /metrics from the agent process.

The exporter is loaded on first use, because a training process imports this package too, for the WSGI and ASGI
applications alone, and should not load `prometheus_client` for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jaxobs_plugins.prometheus.applications import asgi_application, wsgi_application

if TYPE_CHECKING:
    from jaxobs_plugins.prometheus.exporter import PrometheusExporter

__all__ = ["PrometheusExporter", "asgi_application", "wsgi_application"]


def __getattr__(name: str) -> Any:
    if name != "PrometheusExporter":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from jaxobs_plugins.prometheus.exporter import PrometheusExporter

    return PrometheusExporter
