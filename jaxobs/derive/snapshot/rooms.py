"""The state of one training process, room by room."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jaxobs.derive.compilation.compilations import Compiles
from jaxobs.derive.devices.devices import Devices
from jaxobs.derive.executables.registry import Executables
from jaxobs.derive.executables.table import ExecutableTable
from jaxobs.derive.loops.collaborators import Collaborators
from jaxobs.derive.loops.goodput import RunTime
from jaxobs.derive.loops.liveness import SignsOfLife
from jaxobs.derive.loops.loops import Loops
from jaxobs.derive.loops.under_way import RunsUnderWay
from jaxobs.derive.memory.usage import Memory
from jaxobs.derive.metrics.series import Series
from jaxobs.derive.process.observation import Observation
from jaxobs.derive.process.recent import Recent
from jaxobs.derive.profiler_windows.windows import Profiles
from jaxobs.derive.snapshot.validation import Validation
from jaxobs.derive.snapshot.view import DocumentWriter
from jaxobs.derive.spans.finished import FinishedSpans
from jaxobs.model.clock import ClockAnchor
from jaxobs.model.metrics import Catalogue, DeviceReading

SERIES_AN_OPERATION = 40
"""For each 40 of the limit on series one operation has its own: four each, so together a tenth of the limit."""

SERIES_A_ROW = 30
"""Most series that one function or one executable has, by which the limit on series is shared out among them."""


class Rooms:
    """The rooms of state that the fold keeps and a snapshot is made from.

    `resource` and `facts` are shown unchanged under `process`. `job` identifies this start of the job, equally on all
    its ranks; None where nothing in the environment does.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        clock: ClockAnchor,
        began: int,
        resource: Mapping[str, str],
        facts: Mapping[str, Any],
        series_limit: int,
        device_readings: tuple[DeviceReading, ...] = (),
        job: str | None = None,
    ) -> None:
        self.series = Series(catalogue, series_limit)
        self.clock = clock
        self.observation = Observation(self.series, clock, began)
        self.began = began
        self.resource = resource
        self.facts = facts
        rows = max(1, series_limit // SERIES_A_ROW // 2)
        self.compiles = Compiles(self.series, rows)
        self.executables = Executables(self.series)
        self.executable_table = ExecutableTable(self.executables, self.series, rows)
        self.profiles = Profiles(self.series, self.executables, max(1, series_limit // SERIES_AN_OPERATION))
        self.devices = Devices(self.series, device_readings)
        self.memory = Memory(self.series)
        self.recent = Recent()
        self.signs = SignsOfLife(began)
        self.run_time = RunTime(self.series, began, self.signs, facts.get("counts_begin_seconds"))
        self.spans = FinishedSpans(self.series, clock, resource.get("service.instance.id", ""), job)
        self.loops = Loops(
            self.series,
            self.signs,
            Collaborators(self.compiles, self.executables, self.executables.runs, self.profiles),
        )
        self.validation, self.writer = Validation(self.series), DocumentWriter()
        self.under_way = RunsUnderWay()
