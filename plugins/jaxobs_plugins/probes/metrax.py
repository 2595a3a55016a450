"""Probe `metrax`: records the scalars that a job logs with Metrax's backends, as `obs.record` records values."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from jaxobs.plugin.library_probe import LibraryProbe

BACKENDS = ("TensorboardBackend", "WandbBackend")
"""Public names of the backends in `metrax.logging` (as of google-metrax 0.2.4)."""

OWN_EVENTS = "/jax/"
"""Prefix of the names of JAX's own events, which a backend that listens to `jax.monitoring` logs too."""


class MetraxProbe(LibraryProbe):
    """Wraps `log_scalar` of Metrax's backends once the job has imported them."""

    modules = ("metrax.logging",)

    def wrap(self, module: ModuleType) -> None:
        """Wrap the backends; one that this version of Metrax lacks is skipped."""
        for name in BACKENDS:
            self.values(getattr(module, name, None), "log_scalar", _scalar)


def _scalar(backend: object, event: str, value: Any, **_: Any) -> Mapping[str, Any]:  # noqa: ARG001
    return {} if event.startswith(OWN_EVENTS) else {event.lstrip("/"): value}
