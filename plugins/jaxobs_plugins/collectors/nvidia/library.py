"""Access to NVML through nvidia-ml-py: opening it, which boards there are, and what its errors mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pynvml

_UNSUPPORTED = (
    pynvml.NVMLError_NotSupported,
    pynvml.NVMLError_FunctionNotFound,  # the driver is older than the function
    pynvml.NVMLError_ArgumentVersionMismatch,  # … or than this form of its argument
    pynvml.NVMLError_NoPermission,
    AttributeError,  # nvidia-ml-py is older than the function
)


STAND_IN = "PCI-"
"""Begins what a device goes by whose UUID NVML does not tell: its PCI address, else its number."""


@dataclass(frozen=True, slots=True)
class Instance:
    """A MIG instance: a slice of a board that CUDA shows as a device."""

    uuid: str
    handle: Any


@dataclass(frozen=True, slots=True)
class Board:
    """A physical device; `partitioned`: MIG is on, and only its instances can compute. `name` may be empty."""

    uuid: str
    handle: Any
    name: str
    partitioned: bool
    instances: tuple[Instance, ...]


class Boards(NamedTuple):
    """`complete`: none is missing, and their order is known."""

    boards: list[Board]
    problems: list[str]
    complete: bool


def open_library() -> str:
    """Empty where NVML was opened; else why not, with what to do where that is known. Pair with `close_library`."""
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


def close_library() -> None:
    """Once for each `open_library` that succeeded: NVML counts them."""
    pynvml.nvmlShutdown()


def boards() -> Boards:
    """All boards that NVML shows, in the order of their PCI addresses, and what of them could not be read.

    A board that does not tell its UUID goes by a stand-in, one without a name has none: the rest of it is there.
    """
    found: list[tuple[tuple[bool, str], Board]] = []
    problems: list[str] = []
    complete = True
    for index in range(pynvml.nvmlDeviceGetCount()):
        device = f"device {index} of NVML"
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            partitioned, handles = _partitions(handle)
        except pynvml.NVMLError as error:
            problems.append(f"{device} cannot be read: {error}")
            complete = False
            continue
        address = _answer(
            lambda handle: pynvml.nvmlDeviceGetPciInfo(handle).busId, handle, device, problems
        ).upper()
        complete = complete and bool(address)
        stand_in = f"{STAND_IN}{address}" if address else f"{STAND_IN}{index}"
        uuid = _answer(pynvml.nvmlDeviceGetUUID, handle, device, problems) or stand_in
        name = _answer(pynvml.nvmlDeviceGetName, handle, device, problems)
        instances = tuple(
            Instance(
                _answer(pynvml.nvmlDeviceGetUUID, part, f"instance {number} of {device}", problems)
                or f"{stand_in}/{number}",
                part,
            )
            for number, part in handles
        )
        found.append(((not address, address), Board(uuid, handle, name, partitioned, instances)))
    return Boards([board for _, board in sorted(found, key=lambda pair: pair[0])], problems, complete)


def _answer(ask: Callable[[Any], Any], handle: Any, device: str, problems: list[str]) -> str:
    """A part of a device's identity; empty where NVML does not tell it."""
    try:
        return text(ask(handle))
    except pynvml.NVMLError as error:
        part = {pynvml.nvmlDeviceGetUUID: "UUID", pynvml.nvmlDeviceGetName: "name"}.get(ask, "PCI address")
        problems.append(f"{device} does not tell its {part}: {error}")
        return ""


def _partitions(handle: Any) -> tuple[bool, list[tuple[int, Any]]]:
    try:
        partitioned = pynvml.nvmlDeviceGetMigMode(handle)[0] == pynvml.NVML_DEVICE_MIG_ENABLE
    except pynvml.NVMLError:  # boards before A100
        return False, []
    return partitioned, list(_instances(handle)) if partitioned else []


def _instances(handle: Any) -> Iterator[tuple[int, Any]]:
    for index in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            yield index, pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except pynvml.NVMLError_NotFound:  # so many there could be, but are not
            continue


def unsupported(error: Exception) -> bool:
    """Whether this device, driver or nvidia-ml-py will answer no better when it is asked again."""
    return isinstance(error, _UNSUPPORTED)


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
    """One value of NVML's numbered fields. The call succeeds as a whole: each value has a result code of its own."""
    answer = pynvml.nvmlDeviceGetFieldValues(handle, [(field, scope)])[0]
    if answer.nvmlReturn != pynvml.NVML_SUCCESS:
        raise pynvml.NVMLError(answer.nvmlReturn)
    return float(getattr(answer.value, _FIELD_TYPES[answer.valueType]))


def text(value: str | bytes) -> str:
    """Strings of NVML: older releases of nvidia-ml-py give bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
