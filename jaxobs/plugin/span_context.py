"""Reads the application's current OpenTelemetry span, whose children our spans become."""

from __future__ import annotations

import sys
from typing import Any

from jaxobs.model.events import SpanContext
from jaxobs.plugin.guard import Suppressed


def current_span_context() -> SpanContext | None:
    """The context of the application's current span; None without OpenTelemetry or outside a span.

    Imports nothing: if the application has not imported OpenTelemetry, it has no span.
    """
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is not None:
        with Suppressed(Exception):  # a half-imported or foreign opentelemetry must not reach the job
            context = trace.get_current_span().get_span_context()
            if context.is_valid:
                return SpanContext(context.trace_id, context.span_id, int(context.trace_flags))
    return None


def application_instance() -> str | None:
    """The `service.instance.id` of the application's own SDK, which our spans share with its own; None without one.

    Under `opentelemetry-instrument` the SDK is set up before JAX is imported. Imports nothing.
    """
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is not None and "opentelemetry.sdk.trace" in sys.modules:
        with Suppressed(Exception):  # as above
            # Not by `get_tracer_provider()`, which sets that of OTEL_PYTHON_TRACER_PROVIDER where there is none yet.
            attributes = vars(trace)["_TRACER_PROVIDER"].resource.attributes
            return str(attributes["service.instance.id"])
    return None
