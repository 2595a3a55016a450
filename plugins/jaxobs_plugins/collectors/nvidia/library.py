"""Access to NVML through nvidia-ml-py: opens it, lists the boards, interprets its errors, and counts Xid errors."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import pynvml

UNSUPPORTED = (
    pynvml.NVMLError_NotSupported,
    pynvml.NVMLError_FunctionNotFound,  # the driver is older than the function
    pynvml.NVMLError_ArgumentVersionMismatch,  # … or than this form of its argument
    pynvml.NVMLError_NoPermission,
    AttributeError,  # nvidia-ml-py is older than the function
)
"""Errors that will persist, because the device, the driver or nvidia-ml-py does not support the query."""


class Part(NamedTuple):
    """What CUDA shows as a device: a whole board, or a slice of one (a MIG instance)."""

    uuid: str
    handle: Any


class Board(NamedTuple):
    """A physical device. Where MIG is on, only its instances can compute, and are its parts; else it is its own."""

    uuid: str
    handle: Any
    name: str
    parts: tuple[Part, ...]


def open_library() -> str:
    """Open NVML. Returns why that failed and what to do, if known.

    Empty if it is open: `pynvml.nvmlShutdown` is then to be called once, because NVML counts them.
    """
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError_LibraryNotFound:
        return "no NVIDIA driver is installed: libnvidia-ml.so.1 was not found"
    except pynvml.NVMLError_LibRmVersionMismatch as error:
        return (
            f"NVML and the loaded driver differ in version ({error}): reboot the host, or restart the "
            "container, so that both are of the same one"
        )
    except pynvml.NVMLError as error:
        return f"NVML could not be opened: {error}"
    return ""


def boards() -> tuple[list[Board], list[str]]:
    """All boards that NVML shows, in the order of their PCI addresses, and why others that it counts are left out."""
    found: dict[str, Board] = {}
    problems: list[str] = []
    for index in range(pynvml.nvmlDeviceGetCount()):
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            uuid, name = pynvml.nvmlDeviceGetUUID(handle), pynvml.nvmlDeviceGetName(handle)
            parts = tuple(Part(pynvml.nvmlDeviceGetUUID(part), part) for part in _parts(handle))
            address = pynvml.nvmlDeviceGetPciInfo(handle).busId.upper()
        except pynvml.NVMLError as error:
            problems.append(f"device {index} of NVML cannot be read, and is left out: {error}")
            continue
        found[address] = Board(uuid, handle, name, parts)
    return [found[address] for address in sorted(found)], problems


def _parts(handle: Any) -> Iterator[Any]:
    """The handles of a board's parts."""
    is_partitioned = False
    with suppress(pynvml.NVMLError):  # boards before A100
        is_partitioned = pynvml.nvmlDeviceGetMigMode(handle)[0] == pynvml.NVML_DEVICE_MIG_ENABLE
    if not is_partitioned:
        yield handle
        return
    for index in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        with suppress(pynvml.NVMLError_NotFound):  # fewer instances exist than the board could have
            yield pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)


def newest(names: tuple[str, ...], *arguments: Any) -> Any:
    """The answer of the first of these functions that both nvidia-ml-py and the driver have."""
    for name in names:
        function = getattr(pynvml, name, None)
        if function is None:
            continue
        try:
            return function(*arguments)
        except pynvml.NVMLError_FunctionNotFound:
            continue
    raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)


_FIELD_TYPES = {
    pynvml.NVML_VALUE_TYPE_DOUBLE: "dVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_INT: "siVal",
}


def field_value(handle: Any, field: int, scope: int = 0) -> float:
    """One value of NVML's numbered fields. Each value has its own result code: the call succeeds even if it fails."""
    answer = pynvml.nvmlDeviceGetFieldValues(handle, [(field, scope)])[0]
    if answer.nvmlReturn != pynvml.NVML_SUCCESS:
        raise pynvml.NVMLError(answer.nvmlReturn)
    return float(getattr(answer.value, _FIELD_TYPES[answer.valueType]))


WAIT_MILLISECONDS = 1
"""Wait for one event. Pending events are returned at once; NVML documents no wait of 0."""

EVENTS_A_TURN = 64
"""Most events taken in one turn, because a failing device may report without end; the rest wait for the next turn."""


class XidEvents:
    """Counts Xid errors by board. Where events are not available and none was counted, `of` raises the reason."""

    def __init__(self) -> None:
        self._set: Any = None
        self._uuids: dict[int | None, str] = {}
        self._seen: dict[str, tuple[int, int | None]] = {}
        """The number of a board's errors so far, and the last of them."""
        self._failed: Exception | None = None

    def watch(self, boards: Iterable[Board]) -> None:
        """Count the events of these boards from now on, from 0; called once."""
        try:
            self._set = pynvml.nvmlEventSetCreate()
        except pynvml.NVMLError as error:
            self._failed = error
            return
        for board in boards:
            with suppress(pynvml.NVMLError):  # a board that reports none
                pynvml.nvmlDeviceRegisterEvents(board.handle, pynvml.nvmlEventTypeXidCriticalError, self._set)
                self._uuids[_address(board.handle)] = board.uuid
                self._seen[board.uuid] = 0, None

    def poll(self) -> list[tuple[str, int]]:
        """Take what was reported since the last turn: pairs of board UUID and Xid."""
        events: list[tuple[str, int]] = []
        if not self._uuids:
            return events
        self._failed = None
        for _ in range(EVENTS_A_TURN):
            try:
                event = pynvml.nvmlEventSetWait_v2(self._set, WAIT_MILLISECONDS)
            except pynvml.NVMLError_Timeout:
                break
            except pynvml.NVMLError as error:
                self._failed = error
                break
            uuid, number = self._uuids.get(_address(event.device)), int(event.eventData)
            if uuid is not None and event.eventType & pynvml.nvmlEventTypeXidCriticalError:
                events.append((uuid, number))
                self._seen[uuid] = self._seen[uuid][0] + 1, number
        return events

    def of(self, uuid: str) -> tuple[int, int | None]:
        """The number of a board's errors so far, and the last. Raises NVML's error where they cannot be counted.

        One lost device may end the wait for the events of all (`nvmlEventSetWait_v2`): what was counted stays.
        """
        if uuid not in self._seen or (self._failed is not None and not self._seen[uuid][0]):
            raise self._failed or pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return self._seen[uuid]

    def close(self) -> None:
        events, self._set, self._uuids = self._set, None, {}
        if events is not None:
            pynvml.nvmlEventSetFree(events)


def _address(handle: Any) -> int | None:
    """The address in a handle, which identifies a device: two ctypes objects for the same device differ."""
    return ctypes.cast(handle, ctypes.c_void_p).value
