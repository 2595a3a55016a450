"""Exporter `tensorboard`: writes the figures of the run as scalars, beside the curves that the script itself writes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from jaxobs.model.clock import monotonic
from jaxobs.model.snapshot import SnapshotData
from jaxobs.plugin.base import Exporter
from jaxobs.plugin.files import writing_remarks
from jaxobs.plugin.protocol import Agent, Batch, Remark
from jaxobs.report.values import flat_values, steps_of_main_loop

WRITER: Final = "tensorboardX"
NOT_INSTALLED: Final = "tensorboardX is not installed: run `pip install jaxobs[tensorboard]`"

SECONDS: Final = 10.0
"""Seconds between two points of a curve, 8 640 a day, of which TensorBoard shows a thousand by default
(`--samples_per_plugin`, https://github.com/tensorflow/tensorboard#faq)."""


class TensorBoardExporter(Exporter):
    """Writes curves if the setting `tensorboard_directory` is given. Raises where tensorboardX is not installed."""

    takes_events = False
    _agent: Agent

    def __init__(self) -> None:
        self._writer: Any = None
        self._newest: SnapshotData | None = None
        self._due = 0.0

    def check(self, settings: Mapping[str, Any]) -> Iterable[Remark]:
        """Check whether tensorboardX is installed and the directory can be written to."""
        directory = settings.get("tensorboard_directory")
        if directory is not None and find_spec(WRITER) is None:
            return [Remark(NOT_INSTALLED, problem=True)]
        refused = "no curves for TensorBoard can be written: {}".format
        return writing_remarks(directory, "curves for TensorBoard would be written to", refused)

    def start(self, agent: Agent) -> None:
        """Check that tensorboardX is installed; the file is made with the first values."""
        self.takes_batches = bool(agent.settings.get("tensorboard_directory"))
        if self.takes_batches and find_spec(WRITER) is None:
            raise ModuleNotFoundError(NOT_INSTALLED, name=WRITER)
        self._agent = agent

    def export(self, batch: Batch) -> None:
        """Write a point of each curve, every few seconds."""
        self._newest = batch.snapshot
        if monotonic() >= self._due:
            self._write(batch.snapshot)

    def stop(self, timeout: float) -> None:  # noqa: ARG002  # one file; the agent's own deadline holds for it
        """Write the last point and close the file."""
        newest, self._newest = self._newest, None
        if newest is not None:
            self._write(newest)
        if self._writer is not None:
            self._writer.close()

    def _write(self, snapshot: SnapshotData) -> None:
        agent, step = self._agent, steps_of_main_loop(snapshot.document)
        if not step:
            return  # before a loop there is no step to order the points by
        self._due = monotonic() + SECONDS
        if self._writer is None:
            from tensorboardX import SummaryWriter

            rank = agent.resource.get("jax.process_index")
            folder = Path(agent.settings["tensorboard_directory"])
            if rank not in {None, "0"}:  # TensorBoard takes all files of one directory for one run
                folder = folder / f"rank{rank}"
            suffix = f".jaxobs.rank{rank or os.getpid()}"
            self._writer = SummaryWriter(str(folder), filename_suffix=suffix, flush_secs=SECONDS)
        at = agent.clock.unix_seconds(snapshot.time)
        for name, value in flat_values(snapshot.document).items():
            self._writer.add_scalar(name, value, global_step=step, walltime=at)
        self._writer.flush()
