"""Probe `clu`: scalars that a job gives to the metric writers of CLU are recorded, as `obs.record` records values."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from jaxobs.plugin.library_probe import LibraryProbe
from jaxobs.plugin.wrapping import Wrapping

WRITERS = ("AsyncWriter", "LoggingWriter", "MultiWriter", "SummaryWriter", "TorchTensorboardWriter")
"""Public classes with a `write_scalars` of their own (seen in clu 0.0.12). A writer may write to others."""


class CluProbe(LibraryProbe):
    """Wraps `write_scalars` of CLU's writers once the job has imported them."""

    modules = ("clu.metric_writers", "clu.metric_writers.torch_tensorboard_writer")

    def wrap(self, module: ModuleType, wrapping: Wrapping) -> None:
        """Each module has some of the writers."""
        for name in WRITERS:
            wrapping.values(getattr(module, name, None), "write_scalars", _scalars)


def _scalars(writer: object, step: int, scalars: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG001
    return scalars
