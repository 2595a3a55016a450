"""Finds the element type that a product was written in, where the compiled product runs in another.

CPUs run bfloat16, fp8 and 4-bit products in float32: the compiler converts the operands first, and may drop
the rounding between two products altogether. A conversion that the program asked for carries the operation
name ``…/convert_element_type``; one that the compiler put in carries another or none. So an operand's type
is found by walking up from it, through the compiler's conversions and everything that keeps a type, until
an instruction decides it.
"""

from __future__ import annotations

from typing import Final

from jaxobs.cost_model.hlo.instructions import Computation, Instruction
from jaxobs.proto.element_types import ElementType, Kind

_LONGEST_WALK: Final = 256
_ASKED_FOR: Final = b"convert_element_type"
_CONSTANTS: Final = frozenset(("constant", "iota"))


def _compilers_own(convert: Instruction) -> bool:
    if not convert.operands or _ASKED_FOR in convert.message.metadata:
        return False
    source, result = convert.operands[0].shape.type, convert.shape.type
    return source.kind is Kind.REAL and result.kind is Kind.REAL and source.bits < result.bits


class SourceTypes:
    """Finds the types in which one module's products were written, and remembers the instructions it has walked."""

    def __init__(self, computations: list[Computation]) -> None:
        self._needed = any(
            instruction.opcode == "convert" and _compilers_own(instruction)
            for computation in computations
            for instruction in computation.instructions
        )
        """Whether the compiler widened any floating value: if not, every type is the program's own."""
        self.known: dict[Instruction, ElementType] = {}

    def of_product(self, left: Instruction, right: Instruction) -> ElementType:
        """The type a product of these operands was written in.

        Both sides of JAX's products have the same type: where only one side's is still visible, it is the narrower.
        """
        types = [operand.shape.type for operand in (left, right)]
        if self._needed:
            types = [self._of(left), self._of(right)]
        floating = [type_ for type_ in types if type_.kind in (Kind.REAL, Kind.COMPLEX)]
        if not floating:
            return left.shape.type
        complexes = [type_ for type_ in floating if type_.kind is Kind.COMPLEX]
        return min(complexes or floating, key=lambda type_: type_.bits)

    def _of(self, start: Instruction) -> ElementType:
        walked: list[Instruction] = []
        instruction: Instruction | None = start
        found = start.shape.type
        for _ in range(_LONGEST_WALK):
            if instruction is None:
                break
            if instruction in self.known:
                found = self.known[instruction]
                break
            if instruction.shape.type.kind is Kind.REAL:
                found = instruction.shape.type
            walked.append(instruction)
            instruction = _deciding_operand(instruction)
        for instruction in walked:
            self.known[instruction] = found
        return found


def _deciding_operand(instruction: Instruction) -> Instruction | None:
    """The operand that decides this instruction's type; None where the instruction itself does."""
    opcode, operands = instruction.opcode, instruction.operands
    if opcode == "convert":
        return operands[0] if _compilers_own(instruction) else None
    if opcode == "parameter":
        return argument(instruction)
    if opcode in ("fusion", "call") and instruction.called:
        return instruction.called[0].root
    if opcode == "get-tuple-element":
        return _tuple_element(instruction)
    for operand in operands:
        if operand.shape.type == instruction.shape.type and not _constant(operand):
            return operand
    return None


def _constant(instruction: Instruction) -> bool:
    while instruction.opcode == "broadcast" and instruction.operands:
        instruction = instruction.operands[0]
    return instruction.opcode in _CONSTANTS


def argument(parameter: Instruction) -> Instruction | None:
    """The first caller's operand for a parameter; None where no single value is passed."""
    callers = parameter.computation.callers
    if not callers:
        return None
    caller = callers[0]
    number = parameter.message.parameter_number
    if caller.opcode == "conditional":
        number = 1 + next((i for i, branch in enumerate(caller.called) if branch is parameter.computation), 0)
    return (
        caller.operands[number] if caller.opcode != "reduce" and 0 <= number < len(caller.operands) else None
    )


def _tuple_element(instruction: Instruction) -> Instruction | None:
    index = instruction.message.tuple_index
    source: Instruction | None = instruction.operands[0] if instruction.operands else None
    for _ in range(_LONGEST_WALK):
        if source is None:
            return None
        if source.opcode == "tuple":
            return source.operands[index] if 0 <= index < len(source.operands) else None
        if source.opcode == "parameter":
            source = argument(source)
        elif source.opcode in ("fusion", "call") and source.called:
            source = source.called[0].root
        elif source.opcode in ("while", "opt-barrier", "optimization-barrier") and source.operands:
            source = source.operands[0]
        else:
            return None
    return None
