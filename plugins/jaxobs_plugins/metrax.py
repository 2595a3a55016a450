"""Probe `metrax`: scalars that a job logs with the backends of Metrax are recorded, as `obs.record` records values."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from jaxobs.plugin.base import Probe
from jaxobs.plugin.protocol import Job
from jaxobs.plugin.wrapping import Wrapping

BACKENDS = ("TensorboardBackend", "WandbBackend")
"""Of `metrax.logging`, by their public names (seen in google-metrax 0.2.4)."""

OWN_EVENTS = "/jax/"
"""A backend may listen to `jax.monitoring`, and then hears of JAX's own events too, whose names begin so."""


class MetraxProbe(Probe):
    """Wraps `log_scalar` of Metrax's backends once the job has imported them."""

    reason = "metrax.logging has not been imported"

    def __init__(self) -> None:
        self._job: Job | None = None
        self._wrapping: Wrapping | None = None

    def start(self, job: Job) -> None:
        self._job = job
        self._wrapping = Wrapping(job)
        job.when_imported("metrax.logging", self._imported)

    def stop(self) -> None:
        self._job = None
        if self._wrapping is not None:
            self._wrapping.undo()

    def _imported(self, logging: ModuleType) -> None:
        if self._job is None or self._wrapping is None:
            return
        self.reason = ""
        for name in BACKENDS:
            backend = getattr(logging, name, None)
            if isinstance(backend, type):
                self._wrapping.values(backend, "log_scalar", _scalar)


def _scalar(backend: object, event: str, value: Any, **_: Any) -> Mapping[str, Any]:  # noqa: ARG001
    return {} if event.startswith(OWN_EVENTS) else {event.lstrip("/"): value}
