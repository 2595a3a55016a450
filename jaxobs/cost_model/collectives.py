"""Counts the bytes that one device sends over its links in a collective.

``n`` is the number of devices in a group, ``S`` the bytes of the whole (gathered, unreduced) array as one
device holds it. The factors are those of the bandwidth-optimal ring algorithms (R. Thakur, R. Rabenseifner,
W. Gropp, "Optimization of Collective Communication Operations in MPICH", 2005), which NCCL's performance
notes use too: all-reduce 2 (n − 1)/n · S, all-gather and reduce-scatter and all-to-all (n − 1)/n · S,
a permutation or broadcast S.
"""

from __future__ import annotations

from math import prod
from typing import Any, Final

from jaxobs.cost_model.hlo.instructions import Instruction
from jaxobs.model.cost import AT_MOST, COLLECTIVES, NO_COST, Cost

_RINGS: Final = {
    "all-reduce": 2.0,
    **dict.fromkeys(("all-gather", "reduce-scatter", "all-to-all", "ragged-all-to-all"), 1.0),
}
"""The factors of (n − 1)/n · S; what is in no ring sends S."""
_WHOLE: Final = COLLECTIVES - _RINGS.keys()
_MIN_GROUP: Final = 2


def kind_of(opcode: str) -> str | None:
    """The kind of a collective, without the suffix of its asynchronous half; None for other opcodes."""
    kind = opcode.removesuffix("-start")
    return kind if kind in COLLECTIVES else None


def group_size(instruction: Instruction) -> int | None:
    """The number of devices in each group of a collective, the most if groups differ; None if the module lacks it."""
    message = instruction.message
    for groups in (message.replica_groups, message.collective_device_list.replica_groups):
        if groups:
            return max(len(group.replica_ids) for group in groups) or _all_devices(instruction)
    for iota in (message.iota_collective_device_list, message.collective_device_list.iota_replica_group_list):
        if iota.num_devices_per_group > 0:
            return int(iota.num_devices_per_group)
    mesh_axes = message.mesh_axes_replica_group_list
    return _mesh_group(mesh_axes) if mesh_axes.axes else _all_devices(instruction)


def _mesh_group(mesh_axes: Any) -> int | None:
    sizes = [axis.size for axis in mesh_axes.mesh.axes]
    chosen = []
    for axis in mesh_axes.axes:
        if axis.sub_axis_info.size:
            chosen.append(axis.sub_axis_info.size)
        elif 0 <= axis.mesh_axis_index < len(sizes):
            chosen.append(sizes[axis.mesh_axis_index])
        else:
            return None
    return prod(chosen) or None


def _all_devices(instruction: Instruction) -> int | None:
    assignment = instruction.computation.module.message.device_assignment
    return (assignment.replica_count * assignment.computation_count) or None


def fused_collective_cost(instruction: Instruction) -> Cost:
    """The bytes that one device sends for a collective inside a fusion; nothing for other instructions.

    XLA for TPUs writes a reduce-scatter as a fusion of an all-reduce and the slice that the device keeps of its result.
    """
    if kind_of(instruction.opcode) is None:
        return NO_COST
    users = {user.opcode for user in instruction.computation.instructions if instruction in user.operands}
    if instruction.opcode == "all-reduce" and users == {"dynamic-slice"}:
        return collective_cost(instruction, scatters=True)
    reason = f"{instruction.name} is in a fusion, and several of these may be parts of one such collective; {AT_MOST}"
    return collective_cost(instruction) + Cost(inexact_reasons=(reason,))


def collective_cost(instruction: Instruction, *, scatters: bool = False) -> Cost:
    """The bytes that one device sends for a collective; nothing for other instructions.

    `scatters`: of an all-reduce each device keeps only its part, so that it is a reduce-scatter.
    """
    kind = "reduce-scatter" if scatters else kind_of(instruction.opcode)
    if kind is None:
        return NO_COST
    if instruction.message.is_host_transfer:
        return Cost(unmodelled=(f"{kind} between device and host",))
    if kind == "recv":
        return NO_COST
    held = float(sum(operand.shape.held for operand in instruction.operands))
    if kind in _WHOLE:
        pairs = instruction.message.source_target_pairs
        sends = not pairs or any(pair.source != pair.target for pair in pairs)
        return Cost(collective_bytes={kind: held if sends else 0.0})
    members, reasons = group_size(instruction), []
    if members is None:
        members = _MIN_GROUP
        reasons.append(f"{kind} {instruction.name} names no devices; counted for a group of two")
    if kind == "all-gather":
        held *= members
    if kind == "ragged-all-to-all":
        held = instruction.operands[0].shape.held if instruction.operands else 0.0
        reasons.append(f"{instruction.name} sends parts whose sizes are known only at run time; {AT_MOST}")
    sent = _RINGS[kind] * held * (members - 1) / members
    return Cost(collective_bytes={kind: sent}, inexact_reasons=tuple(reasons))


def memory_bytes(instruction: Instruction) -> float:
    """Device-memory bytes of a collective: each operand read, each result written once."""
    read = instruction.operands
    if instruction.opcode == "ragged-all-to-all":
        read = read[:1] + read[2:]  # the second is written over: it becomes the result
    held = float(sum(operand.shape.bytes for operand in read))
    if instruction.opcode == "send":
        return held  # its result names the same buffer
    if instruction.opcode == "recv":
        return instruction.shape.leaves()[0].bytes  # beside a context and a token
    if not instruction.opcode.endswith("-start"):
        return held + instruction.shape.bytes
    # The shape of an asynchronous start lists operands and contexts beside the results.
    if instruction.opcode == "all-gather-start":
        return held * (1 + (group_size(instruction) or _MIN_GROUP))
    return 2 * held
