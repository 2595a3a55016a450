"""Probe `clu`: records the scalars that a job writes with CLU's metric writers, as `obs.record` records values."""

from __future__ import annotations

from types import ModuleType

from jaxobs.plugin.library_probe import LibraryProbe

WRITERS = ("AsyncWriter", "LoggingWriter", "MultiWriter", "SummaryWriter", "TorchTensorboardWriter")
"""Public classes that define `write_scalars` themselves (as of clu 0.0.12). One writer may pass values to others."""


class CluProbe(LibraryProbe):
    """Wraps `write_scalars` of CLU's writers once the job has imported them."""

    modules = ("clu.metric_writers", "clu.metric_writers.torch_tensorboard_writer")

    def wrap(self, module: ModuleType) -> None:
        """Wrap the writers that this module has; the two modules have some each."""
        for name in WRITERS:
            owner = getattr(module, name, None)
            self.values(owner, "write_scalars", lambda writer, step, scalars: scalars)
