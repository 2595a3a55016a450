"""Reads one device of the job at each turn, and leaves a lost device alone for a while."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pynvml

from jaxobs.model.clock import monotonic, now
from jaxobs.model.events import Measured
from jaxobs.model.metrics import Metric
from jaxobs.plugin.fields import Fields, Query
from jaxobs_plugins.collectors.nvidia import catalogue as names
from jaxobs_plugins.collectors.nvidia.library import UNSUPPORTED
from jaxobs_plugins.collectors.nvidia.queries import BOARD_QUERIES, PART_QUERIES, Device
from jaxobs_plugins.collectors.nvidia.selection import CudaDevice
from jaxobs_plugins.collectors.nvidia.xid import XidEvents

LOST_SECONDS = 60.0
"""Seconds without queries after a device was lost, since each may take long and only a reset brings it back."""


class WatchedDevice:
    """Reads a device. `with_board`: also its board's values, which only the first instance of a board reports."""

    def __init__(
        self, ordinal: str, device: CudaDevice, pid: str | None, xids: XidEvents, log: Callable[[str], None], *,
        with_board: bool, clock: Callable[[], float] = monotonic,
    ) -> None:  # fmt: skip
        board = device.board
        self._subject = Device(board.uuid, board.handle, (device.instance or board).handle, pid, xids)
        self._fields = [_fields(PART_QUERIES, (ordinal, device.uuid), clock)]
        if with_board:
            self._fields.append(_fields(BOARD_QUERIES, (ordinal, board.uuid), clock))
        self._labels = (ordinal, device.uuid)
        self._info = (*self._labels, board.uuid, board.name)
        self._log = log
        self._clock = clock
        self._lost_until = -math.inf

    def collect(self) -> list[Measured]:
        if self._clock() < self._lost_until:
            return []
        measured = [_value(names.DEVICE_INFO, self._info, 1.0), _value(names.UP, self._labels, 1.0)]
        try:
            for fields in self._fields:
                measured += fields.collect(self._subject)
        except pynvml.NVMLError_GpuIsLost as error:
            if self._lost_until == -math.inf:
                self._log(f"NVIDIA device {self._labels[0] or '?'} ({self._labels[1]}) is lost: {error}")
            self._lost_until = self._clock() + LOST_SECONDS
            return [*self._withdrawn(), _value(names.UP, self._labels, 0.0)]
        self._lost_until = -math.inf
        return measured

    def withdraw(self) -> list[Measured]:
        """The values that withdraw all gauges, for a device that is no longer the job's or has another ordinal."""
        gone = [_value(names.DEVICE_INFO, self._info, math.nan), _value(names.UP, self._labels, math.nan)]
        return self._withdrawn() + gone

    def _withdrawn(self) -> list[Measured]:
        return [value for fields in self._fields for value in fields.withdraw()]


def _fields(
    queries: Sequence[Query[Device]], labels: tuple[str, str], clock: Callable[[], float]
) -> Fields[Device]:
    return Fields(
        queries, labels, whole=(names.XID_EVENTS,), unsupported=UNSUPPORTED,
        passed_on=(pynvml.NVMLError_GpuIsLost,), clock=clock,
    )  # fmt: skip


def _value(metric: Metric, labels: tuple[str, ...], value: float) -> Measured:
    return Measured(metric.name, labels, value, now())
