"""The exporter `prometheus`: serves the last snapshot on /metrics from the agent process."""

from jaxobs_plugins.prometheus.exporter import PrometheusExporter

__all__ = ["PrometheusExporter"]
