"""The collector `nvidia`: opens NVML, selects the job's devices, and queries each in turn; a lost one rests a while."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import pynvml

from jaxobs.model.clock import monotonic, now
from jaxobs.model.events import Measured
from jaxobs.model.metrics import Metric
from jaxobs.plugin.base import Collector
from jaxobs.plugin.fields import Fields, Query, metrics_of
from jaxobs.plugin.protocol import Agent
from jaxobs_plugins.collectors.nvidia import library
from jaxobs_plugins.collectors.nvidia.library import UNSUPPORTED, XidEvents
from jaxobs_plugins.collectors.nvidia.queries import (
    BOARD_QUERIES,
    DEVICE_INFO,
    PART_QUERIES,
    READINGS,
    UP,
    XID_EVENTS,
    Device,
)
from jaxobs_plugins.collectors.nvidia.selection import CudaDevice, Visible, jax_devices, visible

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
        measured = [_value(DEVICE_INFO, self._info, 1.0), _value(UP, self._labels, 1.0)]
        try:
            for fields in self._fields:
                measured += fields.collect(self._subject)
        except pynvml.NVMLError_GpuIsLost as error:
            if self._lost_until == -math.inf:
                self._log(f"NVIDIA device {self._labels[0] or '?'} ({self._labels[1]}) is lost: {error}")
            self._lost_until = self._clock() + LOST_SECONDS
            return [*self._withdrawn(), _value(UP, self._labels, 0.0)]
        self._lost_until = -math.inf
        return measured

    def withdraw(self) -> list[Measured]:
        """The values that withdraw all gauges, for a device that is no longer the job's or has another ordinal."""
        gone = [_value(DEVICE_INFO, self._info, math.nan), _value(UP, self._labels, math.nan)]
        return self._withdrawn() + gone

    def _withdrawn(self) -> list[Measured]:
        return [value for fields in self._fields for value in fields.withdraw()]


def _fields(
    queries: Sequence[Query[Device]], labels: tuple[str, str], clock: Callable[[], float]
) -> Fields[Device]:
    return Fields(
        queries, labels, whole=(XID_EVENTS,), unsupported=UNSUPPORTED,
        passed_on=(pynvml.NVMLError_GpuIsLost,), clock=clock,
    )  # fmt: skip


def _value(metric: Metric, labels: tuple[str, ...], value: float) -> Measured:
    return Measured(metric.name, labels, value, now())


_JAX_ATTRIBUTES = ("jax.platform", "jax.local_hardware_ids", "jax.process_count")
_KERNEL_MODULE = Path("/proc/driver/nvidia/version")


class NvidiaCollector(Collector):
    """Reads NVIDIA devices. On a host without an NVIDIA driver it measures nothing, and `reason` says why.

    `environment` is that of the training process, which the agent inherits.
    """

    metrics = (DEVICE_INFO, UP, *metrics_of((*BOARD_QUERIES, *PART_QUERIES)))
    device_readings = READINGS
    interval = 5.0

    def __init__(
        self, environment: Mapping[str, str] = os.environ, clock: Callable[[], float] = monotonic
    ) -> None:
        self.reason = "not started"
        self._clock = clock
        self._environment = environment
        self._agent: Agent | None = None
        self._visible = Visible(())
        self._selected_by: tuple[str | None, ...] | None = None
        self._devices: list[WatchedDevice] = []
        self._xids = XidEvents()

    def start(self, agent: Agent) -> None:
        """Open NVML. Logs one line where a device can be expected and NVML does not show it."""
        self.reason = library.open_library()
        if self.reason:
            named = self._environment.get("CUDA_VISIBLE_DEVICES", "-1") not in {"", "-1"}
            if named or _KERNEL_MODULE.exists():
                agent.log(f"no metrics of NVIDIA devices: {self.reason}")
            return
        self._agent = agent
        boards, problems = library.boards()
        for problem in problems:
            agent.log(problem)
        self._visible = visible(self._environment, boards, complete=not problems)

    def collect(self) -> Iterable[Measured]:
        agent = self._agent
        if agent is None:
            return []
        measured = []
        selected_by = tuple(agent.resource.get(name) for name in _JAX_ATTRIBUTES)
        if selected_by != self._selected_by:
            self._selected_by = selected_by
            measured += self._choose(agent)
        for uuid, number in self._xids.poll():
            agent.log(f"the NVIDIA driver reports Xid {number} on {uuid}")
        return measured + [value for device in self._devices for value in device.collect()]

    def stop(self) -> None:
        agent, self._agent, self._devices, self._selected_by = self._agent, None, [], None
        if agent is not None:
            try:
                self._xids.close()
            finally:
                library.close_library()

    def devices_present(self) -> Sequence[str]:
        """Names of the NVIDIA devices of this host, for `jaxobs check`; empty without a driver."""
        if library.open_library():
            return ()
        try:
            return tuple(board.name for board in library.boards().boards)
        finally:
            library.close_library()

    def _choose(self, agent: Agent) -> list[Measured]:
        """Choose the job's devices by what is known now. Returns values that withdraw the earlier choice's gauges."""
        gone = [value for device in self._devices for value in device.withdraw()]
        chosen = jax_devices(self._visible, self._environment, agent.resource)
        boards = {device.board.uuid: device.board for _, device in chosen}
        self._xids.watch(boards.values())
        reported_boards: set[str] = set()
        self._devices = []
        for ordinal, device in chosen:
            with_board = device.board.uuid not in reported_boards
            reported_boards.add(device.board.uuid)
            pid = agent.resource.get("process.pid")
            self._devices.append(
                WatchedDevice(
                    ordinal, device, pid, self._xids, agent.log, with_board=with_board, clock=self._clock
                )
            )
        self.reason = "" if chosen else "JAX uses no NVIDIA device"
        return gone
