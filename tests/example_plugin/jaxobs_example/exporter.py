"""An exporter as a third party would write it: the newest number of steps of each loop, in a file of its own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaxobs.plugin.base import Delivery, Exporter
from jaxobs.plugin.files import write_whole
from jaxobs.plugin.protocol import Agent, Batch, Remark


@dataclass(frozen=True)
class ReportSettings:
    """`JAXOBS_EXAMPLE_REPORT_FILE`, since the plugin is named `example_report`."""

    file: Path | None = None


class ReportExporter(Exporter):
    """An exporter has a thread of its own in the agent process: one that is stuck starves no other."""

    settings = ReportSettings()
    takes_events = False  # it shows the snapshot alone

    def __init__(self) -> None:
        self._agent: Agent | None = None

    def check(self, settings: Mapping[str, Any]) -> Iterable[Remark]:
        """What `jaxobs check` says of it."""
        if self.settings.file is not None:
            yield Remark(f"the report would be written to {self.settings.file}")

    def start(self, agent: Agent) -> None:
        """Keep the agent, for its log and its resource."""
        self._agent = agent

    def export(self, batch: Batch) -> None:
        """Write what is known now, about once a second."""
        if self._agent is None or self.settings.file is None:
            return
        loops = batch.snapshot.document.get("loops") or {}
        report = {name: loop["steps"] for name, loop in loops.items()}
        write_whole(self.settings.file, json.dumps(report).encode())

    def delivery(self) -> Delivery:
        """Each file holds everything, so nothing is lost."""
        return Delivery(dropped=0)

    def stop(self, timeout: float) -> None:
        """Nothing is open."""
        self._agent = None
