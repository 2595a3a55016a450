"""Probe `clu`: scalars that a job gives to the metric writers of CLU are recorded, as `obs.record` records values."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from jaxobs.plugin.base import Probe
from jaxobs.plugin.protocol import Job
from jaxobs.plugin.wrapping import Wrapping

MODULES = ("clu.metric_writers", "clu.metric_writers.torch_tensorboard_writer")
WRITERS = ("AsyncWriter", "LoggingWriter", "MultiWriter", "SummaryWriter", "TorchTensorboardWriter")
"""Public classes with a `write_scalars` of their own (seen in clu 0.0.12). A writer may write to others."""


class CluProbe(Probe):
    """Wraps `write_scalars` of CLU's writers once the job has imported them."""

    reason = "clu.metric_writers has not been imported"

    def __init__(self) -> None:
        self._job: Job | None = None
        self._wrapping: Wrapping | None = None

    def start(self, job: Job) -> None:
        self._job = job
        self._wrapping = Wrapping(job)
        for module in MODULES:
            job.when_imported(module, self._imported)

    def stop(self) -> None:
        self._job = None
        if self._wrapping is not None:
            self._wrapping.undo()

    def _imported(self, writers: ModuleType) -> None:
        if self._job is None or self._wrapping is None:
            return
        self.reason = ""
        for name in WRITERS:
            writer = getattr(writers, name, None)
            if isinstance(writer, type):
                self._wrapping.values(writer, "write_scalars", _scalars)


def _scalars(writer: object, step: int, scalars: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG001
    return scalars
