"""A collector as a third party would write it: how much room a file system has left, asked every few seconds."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from jaxobs.model.clock import now
from jaxobs.model.events import Measured
from jaxobs.model.metrics import Metric
from jaxobs.plugin.base import Collector

FREE = Metric("example_disk_free_bytes", "gauge", "Bytes free on a file system.", ("directory",), "bytes")


@dataclass(frozen=True)
class DiskSettings:
    """`JAXOBS_EXAMPLE_DISK_DIRECTORY`, since the plugin is named `example_disk`."""

    directory: Path = Path("/")


class DiskCollector(Collector):
    """A collector runs in the agent process: what it asks may block without delaying a step."""

    metrics = (FREE,)
    settings = DiskSettings()
    interval = 2.0

    def collect(self) -> Iterable[Measured]:
        """One value. Without the directory it raises, and `jaxobs_source_up` says so."""
        directory = self.settings.directory
        free = shutil.disk_usage(directory).free
        return [Measured(FREE.name, (str(directory),), float(free), now())]
