"""Finds the buffer of a value, which several instructions may name, and what an update reads and replaces of one."""

from __future__ import annotations

from typing import Final

from jaxobs.cost_model.hlo.instructions import Instruction

Buffer = tuple[Instruction, int]
"""The instruction that made a value, and the index in its result (-1: the whole result)."""

_RENAMING: Final = frozenset(("bitcast", "opt-barrier", "optimization-barrier", "add-dependency"))


def buffer_of(instruction: Instruction) -> Buffer:
    """The buffer a value lies in, looking through instructions that only rename it."""
    while True:
        opcode, operands = instruction.opcode, instruction.operands
        if not operands:
            return instruction, -1
        if opcode in _RENAMING:
            instruction = operands[0]
        elif opcode == "get-tuple-element":
            source, index = operands[0], instruction.message.tuple_index
            if source.opcode != "tuple" or not 0 <= index < len(source.operands):
                return source, index
            instruction = source.operands[index]
        else:
            return instruction, -1


def combines(scatter: Instruction) -> bool:
    """Whether a scatter needs the old value, because its computation does more than return the update."""
    return not (scatter.called and scatter.called[0].root.opcode == "parameter")


def replaced_bytes(target: Instruction, update: Instruction) -> float:
    """Bytes of the target that an update replaces: no more than it has, however often a scatter meets one element."""
    return min(target.shape.bytes, update.shape.bytes)
