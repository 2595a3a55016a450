"""Counts Xid errors, which the driver reports as events, by polling once a turn."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any

import pynvml

from jaxobs_plugins.collectors.nvidia.library import Board

WAIT_MILLISECONDS = 1
"""Wait for one event. Pending events are returned at once; NVML documents no wait of 0."""

EVENTS_A_TURN = 64
"""Most events taken in one turn, because a failing device may report without end; the rest wait for the next turn."""


class XidEvents:
    """Counts Xid errors by board. Where events are not available, `count` raises the reason."""

    def __init__(self) -> None:
        self._set: Any = None
        self._uuids: dict[int | None, str] = {}
        self._counts: dict[str, int] = {}
        self._last: dict[str, int] = {}
        self._problems: dict[str, Exception] = {}
        self._waiting_failed: Exception | None = None

    def watch(self, boards: Iterable[Board]) -> None:
        """Count the events of these boards from now on, from 0."""
        self.close()
        self._counts, self._last, self._problems = {}, {}, {}
        self._waiting_failed = None
        try:
            self._set = pynvml.nvmlEventSetCreate()
        except pynvml.NVMLError as error:
            self._waiting_failed = error
            return
        for board in boards:
            try:
                pynvml.nvmlDeviceRegisterEvents(board.handle, pynvml.nvmlEventTypeXidCriticalError, self._set)
            except pynvml.NVMLError as error:
                self._problems[board.uuid] = error
            else:
                self._uuids[_address(board.handle)] = board.uuid
                self._counts[board.uuid] = 0

    def poll(self) -> list[tuple[str, int]]:
        """Take what was reported since the last turn: pairs of board UUID and Xid."""
        events: list[tuple[str, int]] = []
        for _ in range(EVENTS_A_TURN if self._uuids else 0):
            try:
                event = pynvml.nvmlEventSetWait_v2(self._set, WAIT_MILLISECONDS)
            except pynvml.NVMLError_Timeout:
                self._waiting_failed = None
                break
            except pynvml.NVMLError as error:
                self._waiting_failed = error
                break
            self._waiting_failed = None
            uuid = self._uuids.get(_address(event.device))
            if uuid is not None and event.eventType & pynvml.nvmlEventTypeXidCriticalError:
                events.append((uuid, int(event.eventData)))
        for uuid, number in events:
            self._counts[uuid] += 1
            self._last[uuid] = number
        return events

    def count(self, uuid: str) -> int:
        """The number of a board's errors so far. Raises NVML's error where they cannot be counted."""
        problem = self._problems.get(uuid) or self._waiting_failed
        if problem is not None:
            raise problem
        return self._counts[uuid]

    def last(self, uuid: str) -> int | None:
        return self._last.get(uuid)

    def close(self) -> None:
        events, self._set, self._uuids = self._set, None, {}
        if events is not None:
            pynvml.nvmlEventSetFree(events)


def _address(handle: Any) -> int | None:
    """The address in a handle, which identifies a device: two ctypes objects for the same device differ."""
    return ctypes.cast(handle, ctypes.c_void_p).value
