"""Sends spans and metrics over OTLP/HTTP. OpenTelemetry is imported only where `OTEL_…` names an endpoint."""

from jaxobs_plugins.otel.exporter import DeliveryError, OpenTelemetryExporter

__all__ = ["DeliveryError", "OpenTelemetryExporter"]
