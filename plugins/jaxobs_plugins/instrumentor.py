"""Attaches jaxobs to a script that does not mention it, under `opentelemetry-instrument python train.py`."""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import Any

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor  # type: ignore[attr-defined]

from jaxobs.probe.import_hook import when_imported


class JaxInstrumentor(BaseInstrumentor):  # type: ignore[misc]  # OpenTelemetry exports it untyped
    """Attaches jaxobs when JAX is imported. OpenTelemetry loads it in every Python child process, most without JAX."""

    _wanted = True

    def instrumentation_dependencies(self) -> Collection[str]:
        """The requirement for OpenTelemetry to load this class; JAX is not imported to check it."""
        return ("jax >= 0.6",)

    def _instrument(self, **_: Any) -> None:
        self._wanted = True
        when_imported("jax", lambda _: self._attach())

    def _uninstrument(self, **_: Any) -> None:
        self._wanted = False
        instrument = sys.modules.get("jaxobs.instrument")
        observer = instrument.current() if instrument else None
        if observer is not None:
            observer.shutdown()

    def _attach(self) -> None:
        if self._wanted:
            from jaxobs.instrument import attach

            attach()
