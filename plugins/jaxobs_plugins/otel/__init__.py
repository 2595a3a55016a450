"""Sends spans and metrics over OTLP/HTTP. OpenTelemetry is imported only where `OTEL_…` names an endpoint."""
