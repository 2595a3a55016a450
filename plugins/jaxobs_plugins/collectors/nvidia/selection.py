"""Selects the devices that the training process uses, with their JAX ordinals, by its environment and JAX's reports.

CUDA's rules, by its programming guide and the MIG user guide: CUDA_VISIBLE_DEVICES lists devices by index, by UUID or
the beginning of one, or by a MIG instance's UUID; the list ends before the first entry that names nothing. An
index counts boards by PCI address under CUDA_DEVICE_ORDER=PCI_BUS_ID; by default the fastest come first, which is the
same order where all boards are of one model. On a partitioned board CUDA takes the first instance unless one is named;
without CUDA_VISIBLE_DEVICES, the first instance of all boards hides the rest. That an entry named twice leaves no
device is what PyTorch found (`_parse_visible_devices` in torch/cuda/__init__.py).

JAX's rules: the local ordinals count, in ascending order, the CUDA devices that the process was given: those that JAX
reported (`jax.local_hardware_ids`), else those of JAX_LOCAL_DEVICE_IDS (with several processes) or
JAX_CUDA_VISIBLE_DEVICES, else all if the process is alone or there is only one device. Otherwise the ordinals are
unknown, and the label `device` is empty.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jaxobs_plugins.collectors.nvidia.library import Board, Instance

CUDA_PLATFORMS = {"cuda", "gpu"}


@dataclass(frozen=True, slots=True)
class CudaDevice:
    """A device as CUDA shows it: a board, or a MIG instance of one."""

    board: Board
    instance: Instance | None = None

    @property
    def uuid(self) -> str:
        return self.board.uuid if self.instance is None else self.instance.uuid


@dataclass(frozen=True, slots=True)
class Visible:
    """The CUDA devices of a process; unless `ordered`, CUDA's order of them is unknown."""

    devices: tuple[CudaDevice, ...]
    ordered: bool = True


def visible(environment: Mapping[str, str], boards: Sequence[Board], *, complete: bool = True) -> Visible:
    """The devices that CUDA shows. `boards` are in the order of their PCI addresses; `complete`: none is missing."""
    by_bus = environment.get("CUDA_DEVICE_ORDER", "").upper() == "PCI_BUS_ID"
    ordered = complete and (by_bus or len({board.name for board in boards}) < 2)
    wanted = environment.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        instances = [CudaDevice(board, instance) for board in boards for instance in board.instances]
        whole = [CudaDevice(board) for board in boards if not board.partitioned]
        return Visible(tuple(instances[:1] or whole), ordered)
    entries = wanted.split(",")
    by_index = any(re.match(r"\s*\d", entry) for entry in entries)
    by_name = any(entry.strip().startswith(("GPU-", "MIG-")) for entry in entries)
    # Without a known order an index may mean any of the devices, and a name one that is missing. Drivers before 470
    # named MIG instances by their place on a board, and CUDA takes that still.
    by_place = any(entry.strip().startswith("MIG-GPU-") for entry in entries)
    if (by_index and not ordered) or (by_name and not complete) or by_place:
        return Visible(tuple(device for board in boards for device in _of_board(board)), ordered=False)
    chosen: list[CudaDevice] = []
    for entry in entries:
        device = _named(entry.strip(), boards)
        if device is None:
            break
        if device in chosen:
            return Visible(())
        chosen.append(device)
    return Visible(tuple(chosen))


def jax_devices(
    seen: Visible, environment: Mapping[str, str], resource: Mapping[str, str]
) -> list[tuple[str, CudaDevice]]:
    """Pairs of JAX's local ordinal (empty where unknown) and device; none where JAX runs on another platform."""
    platform = resource.get("jax.platform")
    asked = {name.strip().lower() for name in environment.get("JAX_PLATFORMS", "").split(",")} - {""}
    if (platform is not None and platform not in CUDA_PLATFORMS) or (asked and not asked & CUDA_PLATFORMS):
        return []
    devices = seen.devices
    if len(devices) < 2:
        return [("0" if seen.ordered else "", device) for device in devices]
    alone = resource.get("jax.process_count", "1") == "1"
    numbers = _numbers(resource.get("jax.local_hardware_ids"))
    if numbers is None:
        numbers = None if alone else _sorted(environment.get("JAX_LOCAL_DEVICE_IDS"))
    if numbers is None:
        numbers = _sorted(environment.get("JAX_CUDA_VISIBLE_DEVICES"))
    if numbers is None and alone:
        numbers = list(range(len(devices)))
    if numbers is None or not seen.ordered or max(numbers) >= len(devices):
        return [("", device) for device in devices]
    return [(str(ordinal), devices[number]) for ordinal, number in enumerate(numbers)]


def _of_board(board: Board) -> list[CudaDevice]:
    if board.partitioned:
        return [CudaDevice(board, instance) for instance in board.instances]
    return [CudaDevice(board)]


def _named(entry: str, boards: Sequence[Board]) -> CudaDevice | None:
    number = re.match(r"\d+", entry)
    if number:  # as C's strtol reads it: what follows the digits does not count
        index = int(number[0])
        found = _of_board(boards[index])[:1] if index < len(boards) else []
    elif entry.startswith("GPU-"):
        found = [
            device for board in boards if board.uuid.startswith(entry) for device in _of_board(board)[:1]
        ]
    elif entry.startswith("MIG-"):
        found = [
            CudaDevice(board, instance)
            for board in boards
            for instance in board.instances
            if instance.uuid.startswith(entry)
        ]
    else:
        return None
    return found[0] if len(found) == 1 else None


def _numbers(value: str | None) -> list[int] | None:
    entries = [entry.strip() for entry in (value or "").split(",")]
    return [int(entry) for entry in entries] if all(entry.isdecimal() for entry in entries) else None


def _sorted(value: str | None) -> list[int] | None:
    """The numbers in ascending order, each once, because XLA keeps them as a set."""
    numbers = _numbers(value)
    return None if numbers is None else sorted(set(numbers))
