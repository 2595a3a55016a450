"""Probe `metrax`: scalars that a job logs with the backends of Metrax are recorded, as `obs.record` records values."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from jaxobs.plugin.library_probe import LibraryProbe
from jaxobs.plugin.wrapping import Wrapping

BACKENDS = ("TensorboardBackend", "WandbBackend")
"""Of `metrax.logging`, by their public names (seen in google-metrax 0.2.4)."""

OWN_EVENTS = "/jax/"
"""A backend may listen to `jax.monitoring`, and then hears of JAX's own events too, whose names begin so."""


class MetraxProbe(LibraryProbe):
    """Wraps `log_scalar` of Metrax's backends once the job has imported them."""

    modules = ("metrax.logging",)

    def wrap(self, module: ModuleType, wrapping: Wrapping) -> None:
        """One that this version lacks is passed over."""
        for name in BACKENDS:
            wrapping.values(getattr(module, name, None), "log_scalar", _scalar)


def _scalar(backend: object, event: str, value: Any, **_: Any) -> Mapping[str, Any]:  # noqa: ARG001
    return {} if event.startswith(OWN_EVENTS) else {event.lstrip("/"): value}
