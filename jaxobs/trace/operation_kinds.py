"""Classifies an operation by its opcode, or by the name that the profiler gives a kernel."""

from __future__ import annotations

import re
from typing import Final

from jaxobs.model.cost import COLLECTIVES
from jaxobs.model.trace import Kind

_CONTROL: Final = frozenset(["call", "conditional", "while"])
_NUMBER: Final = re.compile(r"(?:\.\d+)+(?:\.(?:clone|remat\d*))*\Z")
_HALF: Final = re.compile(r"-(?:start|done|update)\Z")
# NCCL and RCCL name their kernels ncclDevKernel_AllReduce_…, ncclKernel_…; NVSHMEM's begin with nvshmem.
_COLLECTIVE_KERNEL: Final = re.compile(r"\A(?:nccl|rccl|nvshmem|void nvshmem|msccl)", re.IGNORECASE)
# CUPTI's collector writes MemcpyH2D, ROCm's CopyHostToDevice or the kernel that copies; cuMemcpyHtoDAsync is a call.
_COPY_KERNEL: Final = re.compile(
    r"\A(?:mem(?:cpy|set)|Copy(?:Host|Device)To|FillBuffer|__amd_rocclr_(?:copy|fill))", re.IGNORECASE
)
_HOST_COPY: Final = re.compile(
    r"\A(?:(?:cu|hip)?memcpy(?:H2D|D2H|HtoD|DtoH)|Copy(?:HostToDevice|DeviceToHost))", re.IGNORECASE
)
_DETAILS: Final = re.compile(r"kind_src:(\S+) kind_dst:(\S+)")
_ON_HOST: Final = frozenset(["pageable", "pinned", "host"])


def kind_of_opcode(opcode: str, *, host_transfer: bool = False) -> Kind:
    """The kind of an instruction by its opcode; both halves of an asynchronous pair have the same kind."""
    whole = _HALF.sub("", opcode)
    if host_transfer and whole in {"send", "recv"}:
        return "transfer"
    if whole in COLLECTIVES:
        return "collective"
    if whole in _CONTROL:
        return "control"
    return "copy" if whole == "copy" and whole != opcode else "compute"


def opcode_in_name(instruction: str) -> str:
    """The opcode with which an instruction's name begins, for instructions whose module is not at hand."""
    return _NUMBER.sub("", instruction)


def kind_of_event(name: str, details: str | None, launched_by: str | None = None) -> Kind:
    """The kind of an event without an instruction, by its kernel's name, a copy's details, or the host's call."""
    if _COLLECTIVE_KERNEL.match(name):
        return "collective"
    ends = _DETAILS.search(details or "")
    if ends:
        return "transfer" if (ends[1] in _ON_HOST) != (ends[2] in _ON_HOST) else "copy"
    if _HOST_COPY.match(name) or (launched_by and _HOST_COPY.match(launched_by)):
        return "transfer"
    return "copy" if _COPY_KERNEL.match(name) else "compute"
