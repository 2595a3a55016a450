"""The OpenTelemetry resource and instrumentation scope of this job's spans and metrics."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import version

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from jaxobs.vocabulary.text import valid_text

WHOLE_NUMBERS = frozenset({"process.pid", "jax.process_index", "jax.process_count", "jaxobs.attempt"})
"""Attributes that are integers in OpenTelemetry's semantic conventions, and similar ones of our own."""


def resource(attributes: Mapping[str, str]) -> Resource:
    """The resource with these attributes, among which those of the job's OTEL_… variables are already.

    The SDK's own detector would read these once more, and log what is malformed in them with its value.
    """
    own: dict[str, str | int] = {
        name: int(value) if name in WHOLE_NUMBERS and value.isdecimal() else valid_text(value)
        for name, value in dict(attributes).items()  # a copy: the agent may add to it meanwhile
    }
    return Resource(own)


@cache
def scope() -> InstrumentationScope:
    """The instrumentation scope of our spans and metrics."""
    return InstrumentationScope("jaxobs", version("jaxobs"))
