"""Serialized module to linked instructions; bytes that are wrong in any way end in ``HloDecodeError``."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import DecodeError

from jaxobs.cost_model.descriptors import ModuleMessage
from jaxobs.cost_model.errors import HloDecodeError
from jaxobs.cost_model.instructions import Computation, Instruction, Module
from jaxobs.cost_model.opcodes import CALL_NOTHING
from jaxobs.cost_model.shapes import ShapeTable


def decode(serialized: bytes, *, maximum_instructions: int) -> Module:
    """The module in ``serialized``, an ``HloModuleProto``; raises ``HloDecodeError``."""
    message = ModuleMessage()
    try:
        message.ParseFromString(serialized)
    except DecodeError as error:
        raise HloDecodeError(
            f"{len(serialized)} bytes are no HloModuleProto: truncated or corrupted ({error})"
        ) from None
    if not message.computations:
        raise HloDecodeError(
            f"{len(serialized)} bytes hold no HLO computation: not a serialized HloModuleProto"
        )
    count = sum(len(computation.instructions) for computation in message.computations)
    if count > maximum_instructions:
        raise HloDecodeError(
            f"module has {count} instructions, more than the limit of {maximum_instructions}; "
            "raise the limit to read it"
        )
    return _link(message, count)


def _link(message: Any, count: int) -> Module:
    module = Module(message)
    module.instruction_count = count
    shapes = ShapeTable()
    opcodes: dict[bytes, str] = {}
    by_id: dict[int, Computation] = {}
    for index, part in enumerate(message.computations):
        computation = Computation(part, index, module)
        if part.id in by_id:
            raise HloDecodeError(f"two computations have the id {part.id}")
        by_id[part.id] = computation
        module.computations.append(computation)
    for computation in module.computations:
        _read_instructions(computation, by_id, shapes, opcodes)
    entry = by_id.get(message.entry_computation_id)
    if entry is None:
        raise HloDecodeError(f"the entry computation {message.entry_computation_id} is missing")
    module.entry = entry
    return module


def _read_instructions(
    computation: Computation, by_id: dict[int, Computation], shapes: ShapeTable, opcodes: dict[bytes, str]
) -> None:
    known: dict[int, Instruction] = {}
    instructions = computation.instructions
    for position, message in enumerate(computation.message.instructions):
        code = message.opcode
        opcode = opcodes.get(code)
        if opcode is None:
            opcode = opcodes[code] = str(code, "utf-8", "replace")
        instruction = Instruction(message, opcode, shapes.read(message.shape), position, computation)
        operand_ids = message.operand_ids
        if operand_ids:
            try:
                instruction.operands = tuple([known[operand] for operand in operand_ids])
            except KeyError as error:
                raise HloDecodeError(
                    f"instruction {instruction.name!r} of {computation.name!r} uses {error}, not before it"
                ) from None
        if opcode not in CALL_NOTHING:
            called = message.called_computation_ids
            if called:
                _link_calls(instruction, called, by_id)
        known[message.id] = instruction
        instructions.append(instruction)
    if len(known) != len(instructions):
        raise HloDecodeError(f"two instructions of {computation.name!r} have the same id")
    root = known.get(computation.message.root_id)
    if root is None:
        raise HloDecodeError(f"the root of {computation.name!r} is missing")
    computation.root = root


def _link_calls(instruction: Instruction, called: Any, by_id: dict[int, Computation]) -> None:
    try:
        instruction.called = tuple([by_id[computation] for computation in called])
    except KeyError as error:
        raise HloDecodeError(
            f"instruction {instruction.name!r} calls computation {error}, which is missing"
        ) from None
    for computation in instruction.called:
        computation.callers.append(instruction)
