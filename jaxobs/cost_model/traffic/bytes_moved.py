"""Counts the bytes that a schedulable instruction moves to and from device memory.

These are the bytes that it must move: each distinct operand is read once and each result written once. A slice or a
gather reads the elements that it takes, and an update in place reads and writes those that it replaces. Tuples,
bitcasts and the like only rename buffers. A constant counts where it is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jaxobs.cost_model.hlo.instructions import Instruction
from jaxobs.cost_model.hlo.opcodes import CONTROL, FREE
from jaxobs.cost_model.traffic.buffers import Buffer, buffer_of, combines, replaced_bytes
from jaxobs.cost_model.traffic.collectives import kind_of, memory_bytes
from jaxobs.cost_model.traffic.fusions import FusionTraffic

_ELSEWHERE: Final = FREE | CONTROL | {"custom-call"}


def traffic(instruction: Instruction, fusions: FusionTraffic) -> float:
    """Bytes read and written in device memory by one execution; 0 for opcodes that are counted elsewhere."""
    opcode = instruction.opcode
    if opcode == "fusion":
        return _fusion(instruction, fusions)
    if opcode in _ELSEWHERE:
        return 0.0
    rule = _RULES.get(opcode)
    if rule is not None:
        return rule(instruction)
    if kind_of(opcode) is not None:
        return memory_bytes(instruction)
    return _read(instruction.operands) + instruction.shape.bytes


def _read(operands: tuple[Instruction, ...]) -> float:
    if len(operands) == 1:
        return operands[0].shape.bytes
    return float(sum({buffer_of(operand): operand.shape.bytes for operand in operands}.values()))


def _fusion(instruction: Instruction, fusions: FusionTraffic) -> float:
    if not instruction.called:
        return _read(instruction.operands) + instruction.shape.bytes
    read, written = fusions.of(instruction.called[0])
    total: dict[Buffer, float] = {}
    for number, operand in enumerate(instruction.operands):
        needed = read.get(number)
        if needed:
            buffer = buffer_of(operand)
            total[buffer] = min(operand.shape.bytes, total.get(buffer, 0.0) + needed)
    return sum(total.values()) + written


def _slice(instruction: Instruction) -> float:
    """Bytes of the elements read, which a gather may take many times, of the result written, and of the indices."""
    taken = min(instruction.operand(0).shape.bytes, instruction.shape.bytes)
    return taken + instruction.shape.bytes + _read(instruction.operands[1:])


def _update_slice(instruction: Instruction) -> float:
    return 2 * instruction.operand(1).shape.bytes + _read(instruction.operands[2:])


def _scatter(instruction: Instruction) -> float:
    """Bytes of indices and updates read, and of the elements written, which are read too if they are combined."""
    arrays = (len(instruction.operands) - 1) // 2
    targets, updates = instruction.operands[:arrays], instruction.operands[arrays + 1 :]
    written = sum(map(replaced_bytes, targets, updates)) * (2 if combines(instruction) else 1)
    return instruction.operand(arrays).shape.bytes + sum(update.shape.bytes for update in updates) + written


def _copy_start(instruction: Instruction) -> float:
    """Bytes read and written; the result lists destination, source and a context. Host memory does not count."""
    return instruction.operand(0).shape.bytes + instruction.shape.leaves()[0].bytes


_RULES: Final[dict[str, Callable[[Instruction], float]]] = {
    "slice": _slice,
    "dynamic-slice": _slice,
    "gather": _slice,
    "dynamic-update-slice": _update_slice,
    "scatter": _scatter,
    "copy-start": _copy_start,
}
