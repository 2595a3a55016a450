"""The collector `nvidia`: opens NVML, selects the job's devices, and queries each of them in turn."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from jaxobs.model.clock import monotonic
from jaxobs.model.events import Measured
from jaxobs.plugin.base import Collector
from jaxobs.plugin.fields import metrics_of
from jaxobs.plugin.protocol import Agent
from jaxobs_plugins.collectors.nvidia import catalogue, library
from jaxobs_plugins.collectors.nvidia.queries import BOARD_QUERIES, PART_QUERIES
from jaxobs_plugins.collectors.nvidia.selection import Visible, jax_devices, visible
from jaxobs_plugins.collectors.nvidia.watched_device import WatchedDevice
from jaxobs_plugins.collectors.nvidia.xid import XidEvents

_JAX_ATTRIBUTES = ("jax.platform", "jax.local_hardware_ids", "jax.process_count")
_KERNEL_MODULE = Path("/proc/driver/nvidia/version")


class NvidiaCollector(Collector):
    """Reads NVIDIA devices. On a host without an NVIDIA driver it measures nothing, and `reason` says why.

    `environment` is that of the training process, which the agent inherits.
    """

    metrics = (catalogue.DEVICE_INFO, catalogue.UP, *metrics_of((*BOARD_QUERIES, *PART_QUERIES)))
    device_readings = catalogue.READINGS
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
        boards, problems, complete = library.boards()
        for problem in problems:
            agent.log(problem)
        self._visible = visible(self._environment, boards, complete=complete)

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
            return tuple(board.name or "without a name" for board in library.boards().boards)
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
