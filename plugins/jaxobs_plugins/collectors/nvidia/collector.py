"""The collector `nvidia`: opens NVML, selects the job's devices, and queries each in turn; a lost one rests a while.

Devices are selected, with their JAX ordinals, by the job's environment and what JAX reports of its backend.
CUDA's rules, by its programming guide and the MIG user guide: CUDA_VISIBLE_DEVICES lists devices by index, by UUID or
the beginning of one, or by a MIG instance's UUID; the list ends before the first entry that names nothing. An
index counts boards by PCI address under CUDA_DEVICE_ORDER=PCI_BUS_ID; by default the fastest come first, which is the
same order where all boards are of one model. On a partitioned board CUDA takes the first instance unless one is named;
without CUDA_VISIBLE_DEVICES, the first instance of all boards hides the rest.

JAX's local ordinals count the CUDA devices that it reported (`jax.local_hardware_ids`), or the only one. Where CUDA's
order is unknown, the ordinals are, and the label `device` is empty. Nothing is measured before JAX has a backend.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pynvml

from jaxobs.model.clock import monotonic, now
from jaxobs.model.events import Measured
from jaxobs.model.metrics import Metric
from jaxobs.plugin.fields import DeviceCollector, Fields, metrics_of
from jaxobs.plugin.protocol import Agent
from jaxobs_plugins.collectors.nvidia import library
from jaxobs_plugins.collectors.nvidia.library import UNSUPPORTED, Board, Part, XidEvents
from jaxobs_plugins.collectors.nvidia.queries import (
    BOARD_QUERIES,
    DEVICE_INFO,
    EVENT_QUERIES,
    PART_QUERIES,
    READINGS,
    UP,
    XID_EVENTS,
    Device,
)


class CudaDevice(NamedTuple):
    """A device as CUDA shows it, and the board that it is a part of."""

    board: Board
    part: Part


class Visible(NamedTuple):
    """The CUDA devices of a process; unless `ordered`, CUDA's order of them is unknown."""

    devices: tuple[CudaDevice, ...]
    ordered: bool = True


def visible(environment: Mapping[str, str], boards: Sequence[Board], *, complete: bool = True) -> Visible:
    """The devices that CUDA shows. `boards` are in the order of their PCI addresses; `complete`: none is missing."""
    by_bus = environment.get("CUDA_DEVICE_ORDER", "").upper() == "PCI_BUS_ID"
    ordered = complete and (by_bus or len({board.name for board in boards}) < 2)
    every = [CudaDevice(board, part) for board in boards for part in board.parts]
    wanted = environment.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        instances = [device for device in every if device.part.uuid != device.board.uuid]
        return Visible(tuple(instances[:1] or every), ordered)
    entries = [entry.strip() for entry in wanted.split(",")]
    # Without a known order an index may mean any of the devices, and a name one that is missing.
    if not complete or (not ordered and any(entry[:1].isdecimal() for entry in entries)):
        return Visible(tuple(every), ordered=False)
    chosen: list[CudaDevice] = []
    for entry in entries:
        device = _named(entry, boards)
        if device is None:
            break
        chosen.append(device)
    return Visible(tuple(chosen))


def jax_devices(seen: Visible, resource: Mapping[str, str]) -> list[tuple[str, CudaDevice]]:
    """Pairs of JAX's local ordinal (empty where unknown) and device, where JAX runs on CUDA."""
    devices = seen.devices
    told = resource.get("jax.local_hardware_ids", "0" if len(devices) == 1 else "")
    numbers = [int(number) for number in told.split(",")] if told else []
    if not numbers or not seen.ordered or max(numbers) >= len(devices):
        return [("", device) for device in devices]
    return [(str(ordinal), devices[number]) for ordinal, number in enumerate(numbers)]


def _named(entry: str, boards: Sequence[Board]) -> CudaDevice | None:
    """The device that an entry of CUDA_VISIBLE_DEVICES names; None if it names none or several."""
    first = {board.uuid: CudaDevice(board, board.parts[0]) for board in boards if board.parts}
    if number := re.match(r"\d+", entry):  # as C's strtol reads it: what follows the digits does not count
        named = boards[int(number[0]) : int(number[0]) + 1]
        return first.get(named[0].uuid) if named else None
    every = first | {part.uuid: CudaDevice(board, part) for board in boards for part in board.parts}
    found = [device for uuid, device in every.items() if entry and uuid.startswith(entry)]
    return found[0] if len(found) == 1 else None


LOST_SECONDS = 60.0
"""Seconds without queries after a device was lost, since each may take long and only a reset brings it back."""


class WatchedDevice:
    """Reads a device. `with_board`: also its board's values, which only the first instance of a board reports."""

    def __init__(
        self, ordinal: str, device: CudaDevice, pid: str | None, xids: XidEvents, log: Callable[[str], None], *,
        with_board: bool, clock: Callable[[], float] = monotonic,
    ) -> None:  # fmt: skip
        board = device.board
        self._subject = Device(board.uuid, board.handle, device.part.handle, pid, xids)
        self._labels = (ordinal, device.part.uuid)
        of_board = [(BOARD_QUERIES, (ordinal, board.uuid))] if with_board else []
        self._fields = [
            Fields(
                queries, labels, unsupported=UNSUPPORTED, passed_on=(pynvml.NVMLError_GpuIsLost,), clock=clock
            )
            for queries, labels in [(PART_QUERIES, self._labels), *of_board]
        ]
        # Their error may be that another device is lost, so none is passed on.
        self._events = Fields(
            EVENT_QUERIES if with_board else (), (ordinal, board.uuid), whole=(XID_EVENTS,),
            unsupported=UNSUPPORTED, clock=clock,
        )  # fmt: skip
        self._info = (*self._labels, board.uuid, board.name)
        self._log = log
        self._clock = clock
        self._lost_until = -math.inf

    def collect(self) -> list[Measured]:
        events = self._events.collect(self._subject)
        if self._clock() < self._lost_until:
            return events
        measured = [_value(DEVICE_INFO, self._info, 1.0), _value(UP, self._labels, 1.0), *events]
        try:
            for fields in self._fields:
                measured += fields.collect(self._subject)
        except pynvml.NVMLError_GpuIsLost as error:
            if self._lost_until == -math.inf:
                self._log(f"NVIDIA device {self._labels[0] or '?'} ({self._labels[1]}) is lost: {error}")
            self._lost_until = self._clock() + LOST_SECONDS
            gone = [value for fields in self._fields for value in fields.withdraw()]
            return [*gone, _value(UP, self._labels, 0.0), *events]
        self._lost_until = -math.inf
        return measured


def _value(metric: Metric, labels: tuple[str, ...], value: float) -> Measured:
    return Measured(metric.name, labels, value, now())


_KERNEL_MODULE = Path("/proc/driver/nvidia/version")


class NvidiaCollector(DeviceCollector):
    """Reads NVIDIA devices. For a job that uses none, or without a driver, it measures nothing: `reason` says why.

    `environment` is that of the training process, which the agent inherits, and has anew once JAX has a backend.
    """

    metrics = (DEVICE_INFO, UP, *metrics_of((*BOARD_QUERIES, *EVENT_QUERIES, *PART_QUERIES)))
    device_readings = READINGS
    platforms = frozenset({"cuda", "gpu"})
    device = "NVIDIA device"

    def __init__(
        self, environment: Mapping[str, str] = os.environ, clock: Callable[[], float] = monotonic
    ) -> None:
        self._clock = clock
        self._environment = environment
        self._is_open = False
        self._xids = XidEvents()

    def stop(self) -> None:
        is_open, self._is_open, self._readers = self._is_open, False, None
        if is_open:
            try:
                self._xids.close()
            finally:
                pynvml.nvmlShutdown()

    def devices_present(self) -> Sequence[str]:
        """Names of the NVIDIA devices of this host, for `jaxobs check`; empty without a driver."""
        if library.open_library():
            return ()
        try:
            return tuple(board.name for board in library.boards()[0])
        finally:
            pynvml.nvmlShutdown()

    def opened(self, agent: Agent) -> list[Callable[[], list[Measured]]]:
        """Open NVML, for a job on GPUs, and return what takes its events and then reads its devices.

        Logs one line where a device can be expected and NVML does not show it.
        """
        self.reason = "" if self._is_open else library.open_library()
        if self.reason:
            named = self._environment.get("CUDA_VISIBLE_DEVICES", "-1") not in {"", "-1"}
            if named or _KERNEL_MODULE.exists():
                agent.log(f"no metrics of NVIDIA devices: {self.reason}")
            return []
        self._is_open = True
        shown, problems = library.boards()
        for problem in problems:
            agent.log(problem)
        chosen = jax_devices(visible(self._environment, shown, complete=not problems), agent.resource)
        self.reason = "" if chosen else "JAX uses no NVIDIA device"
        boards = {device.board.uuid: device.board for _, device in chosen}
        self._xids.watch(boards.values())
        pid = agent.resource.get("process.pid")
        watched = [
            WatchedDevice(
                ordinal, device, pid, self._xids, agent.log,
                with_board=boards.pop(device.board.uuid, None) is not None, clock=self._clock,
            )
            for ordinal, device in chosen
        ]  # fmt: skip
        return [partial(self._take_events, agent.log), *(device.collect for device in watched)]

    def _take_events(self, log: Callable[[str], None]) -> list[Measured]:
        for uuid, number in self._xids.poll():
            log(f"the NVIDIA driver reports Xid {number} on {uuid}")
        return []
