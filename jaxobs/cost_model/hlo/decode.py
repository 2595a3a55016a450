"""Decodes a serialized module to linked instructions, and finds which of its computations run, in which order.

Raises ``HloDecodeError`` for bytes that are wrong in any way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final

from google.protobuf.message import DecodeError

from jaxobs.cost_model.hlo.instructions import (
    CONTROL,
    HOST_THREAD,
    Computation,
    HloDecodeError,
    Instruction,
    Module,
    Shape,
    instructions_of,
    read_shape,
)
from jaxobs.proto.messages import ModuleMessage

MAXIMUM_INSTRUCTIONS: Final = 2_000_000


@contextmanager
def decoded(serialized: bytes | memoryview) -> Iterator[Module]:
    """The module in an ``HloModuleProto``, for a `with` block, after which it cannot be used.

    Raises ``HloDecodeError``, also in place of what is raised in the block because its fields make no sense.
    """
    module = Module(_message_of(serialized))
    try:
        _link(module)
        yield module
    except (DecodeError, OverflowError, RecursionError) as error:
        raise HloDecodeError(f"module {module.name!r} has implausible fields: {error}") from None
    finally:
        module.release()


def _message_of(serialized: bytes | memoryview) -> Any:
    try:
        message = ModuleMessage.FromString(bytes(serialized))
    except DecodeError as error:
        raise HloDecodeError(
            f"{len(serialized)} bytes are no HloModuleProto: truncated or corrupted ({error})"
        ) from None
    if not message.computations:
        raise HloDecodeError(
            f"{len(serialized)} bytes hold no HLO computation: not a serialized HloModuleProto"
        )
    count = sum(len(computation.instructions) for computation in message.computations)
    if count > MAXIMUM_INSTRUCTIONS:
        raise HloDecodeError(
            f"module has {count} instructions, more than the limit of {MAXIMUM_INSTRUCTIONS}"
        )
    return message


def _link(module: Module) -> None:
    """Link instructions and computations."""
    # A module repeats few shapes and opcodes many times.
    shape_of, opcode_of = cache(read_shape), cache(lambda code: str(code, "utf-8", "replace"))
    by_id: dict[int, Computation] = {}
    for index, message in enumerate(module.message.computations):
        computation = by_id[message.id] = Computation(message, index, module)
        module.computations.append(computation)
    if len(by_id) != len(module.computations):
        raise HloDecodeError("two computations have the same id")
    try:
        for computation in module.computations:
            _read_instructions(computation, by_id, shape_of, opcode_of)
        module.entry = by_id[module.message.entry_computation_id]
    except KeyError as error:
        raise HloDecodeError(f"module {module.name!r} refers to {error}, which it has not before") from None


def _read_instructions(
    computation: Computation,
    by_id: dict[int, Computation],
    shape_of: Callable[[bytes], Shape],
    opcode_of: Callable[[bytes], str],
) -> None:
    known: dict[int, Instruction] = {}
    instructions = computation.instructions
    for position, message in enumerate(computation.message.instructions):
        opcode = opcode_of(message.opcode)
        instruction = Instruction(message, opcode, shape_of(message.shape), position, computation)
        if operand_ids := message.operand_ids:
            instruction.operands = tuple([known[operand] for operand in operand_ids])
        if called := message.called_computation_ids:
            every = [by_id[number] for number in called]
            instruction.called = tuple([one for one in every if one.message.execution_thread != HOST_THREAD])
            for one in instruction.called:
                one.callers.append(instruction)
        if opcode == "parameter":
            computation.parameters[message.parameter_number] = instruction
        known[message.id] = instruction
        instructions.append(instruction)
    if len(known) != len(instructions):
        raise HloDecodeError(f"two instructions of {computation.name!r} have the same id")
    computation.root = known[computation.message.root_id]


def callees_first(module: Module) -> list[Computation]:
    """The computations that the entry reaches, each after all that it calls.

    Raises ``HloDecodeError`` if one calls itself.
    """
    calls: dict[Computation, list[Computation]] = {}
    waiting = [module.entry]
    while waiting:
        computation = waiting.pop()
        if computation not in calls:
            calls[computation] = [part for one in computation.instructions for part in one.called]
            waiting += calls[computation]
    try:
        return list(TopologicalSorter(calls).static_order())
    except CycleError as error:
        raise HloDecodeError(f"computation {error.args[1][0].name!r} calls itself") from None


def where_run(order: list[Computation], entry: Computation) -> tuple[set[Computation], set[Computation]]:
    """The computations whose instructions run on their own, and those that run inside one instruction.

    The former are the entry and those that loops, calls and branches run; the latter fused ones, those applied by a
    reduction and the like.
    """
    scheduled, embedded = {entry}, set[Computation]()
    for instruction in instructions_of(reversed(order)):
        is_control = instruction.opcode in CONTROL
        if is_control and instruction.computation in scheduled:
            scheduled.update(instruction.called)
        if not is_control or instruction.computation in embedded:
            embedded.update(instruction.called)
    return scheduled, embedded
