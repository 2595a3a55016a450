"""Finds what products were in the program as written: their element types, and those that the compiler rewrote as sums.

CPUs run bfloat16, fp8 and 4-bit products in float32: the compiler converts the operands first, and may drop
the rounding between two products altogether. A conversion that the program asked for carries the operation
name ``…/convert_element_type``; one that the compiler put in carries another or none. So an operand's type
is found by walking up from it, through the compiler's conversions and everything that keeps a type, until
an instruction decides it.
"""

from __future__ import annotations

from collections import defaultdict
from math import prod, sqrt
from typing import Final

from jaxobs.cost_model.arithmetic.products import MULTIPLY_ADDS
from jaxobs.cost_model.hlo.instructions import Computation, Instruction, instructions_of
from jaxobs.cost_model.hlo.scopes import AGAIN, operation_name, scope_of, was_product
from jaxobs.proto.element_types import ElementType, Kind

_MAX_WALK: Final = 256
_ASKED_FOR: Final = b"convert_element_type"
_CONSTANTS: Final = frozenset(("constant", "iota"))
_TUPLES_PASS: Final = frozenset(("call", "fusion", "opt-barrier", "parameter", "while"))


def _compilers_own(convert: Instruction) -> bool:
    if not convert.operands or _ASKED_FOR in convert.message.metadata:
        return False
    source, result = convert.operands[0].shape.type, convert.shape.type
    return source.kind is Kind.REAL and result.kind is Kind.REAL and source.bits < result.bits


class SourceTypes:
    """Finds the types in which one module's products were written, and remembers the instructions it has walked."""

    def __init__(self, computations: list[Computation]) -> None:
        every = instructions_of(computations)
        self._needed = any(each.opcode == "convert" and _compilers_own(each) for each in every)
        """Whether the compiler widened any floating value: if not, every type is the program's own."""
        self.known: dict[Instruction, ElementType] = {}

    def of_product(self, left: Instruction, right: Instruction) -> ElementType:
        """The type a product of these operands was written in.

        Both sides of JAX's products have the same type: where only one side's is still visible, it is the narrower.
        """
        types = [self._of(operand) if self._needed else operand.shape.type for operand in (left, right)]
        floating = [type_ for type_ in types if type_.kind in (Kind.REAL, Kind.COMPLEX)]
        if not floating:
            return left.shape.type
        complexes = [type_ for type_ in floating if type_.kind is Kind.COMPLEX]
        return min(complexes or floating, key=lambda type_: type_.bits)

    def _of(self, start: Instruction) -> ElementType:
        walked: list[Instruction] = []
        instruction: Instruction | None = start
        found = start.shape.type
        while instruction is not None and instruction not in self.known and len(walked) < _MAX_WALK:
            if instruction.shape.type.kind is Kind.REAL:
                found = instruction.shape.type
            walked.append(instruction)
            instruction = _deciding_operand(instruction)
        if instruction in self.known and len(walked) < _MAX_WALK:
            found = self.known[instruction]
        self.known.update(dict.fromkeys(walked, found))
        return found


def _deciding_operand(instruction: Instruction) -> Instruction | None:
    """The operand that decides this instruction's type; None if the instruction itself does."""
    opcode, operands = instruction.opcode, instruction.operands
    if opcode == "convert":
        return operands[0] if _compilers_own(instruction) else None
    if opcode == "parameter":
        return argument(instruction)
    if opcode in ("fusion", "call") and instruction.called:
        return instruction.called[0].root
    if opcode == "get-tuple-element":
        return _tuple_element(instruction)
    alike = (operand for operand in operands if operand.shape.type == instruction.shape.type)
    return next((operand for operand in alike if not _constant(operand)), None)


def _constant(instruction: Instruction) -> bool:
    while instruction.opcode == "broadcast" and instruction.operands:
        instruction = instruction.operands[0]
    return instruction.opcode in _CONSTANTS


def argument(parameter: Instruction) -> Instruction | None:
    """The first caller's operand for a parameter; None if no single value is passed."""
    callers = parameter.computation.callers
    if not callers:
        return None
    caller = callers[0]
    number = parameter.message.parameter_number
    if caller.opcode == "conditional":
        number = 1 + next((i for i, branch in enumerate(caller.called) if branch is parameter.computation), 0)
    is_passed = caller.opcode != "reduce" and 0 <= number < len(caller.operands)
    return caller.operands[number] if is_passed else None


def _tuple_element(instruction: Instruction) -> Instruction | None:
    source: Instruction | None = instruction.operands[0] if instruction.operands else None
    for _ in range(_MAX_WALK):
        if source is None or source.opcode not in _TUPLES_PASS:
            break
        source = _deciding_operand(source)
    index = instruction.message.tuple_index
    elements = source.operands if source is not None and source.opcode == "tuple" else ()
    return elements[index] if 0 <= index < len(elements) else None


_MAX_SUM_WALK: Final = 64
_SUMS: Final = frozenset(("reduce", "reduce-window"))
_RENAMING: Final = frozenset(("bitcast", "convert", "copy", "pad", "reshape", "transpose"))
_LIBRARIES: Final = ("__cublas$", "__cudnn$", "__onednn$")
_BACKWARD: Final = "transpose("  # JAX's name for the transposed half of a gradient


class Rewritten:
    """A module's products in other forms, and those whose names wrongly say that they are rematerialised."""

    def __init__(self, computations: list[Computation]) -> None:
        self.products: set[Instruction] = set()
        """Multiplications that are dot products together with the additions in ``sums``."""
        self.sums: set[Instruction] = set()
        """Reductions that add up such multiplications, and are counted with them."""
        self.first: set[Instruction] = set()
        """Products named as rematerialised that are the only ones left, merged with the equal forward ones."""
        matrix: list[Instruction] = []
        for instruction in instructions_of(computations):
            if instruction.opcode == "reduce" and was_product(instruction):
                self._take_apart(instruction)
            elif instruction.opcode in MULTIPLY_ADDS or _is_product_of_library(instruction):
                matrix.append(instruction)
        if any(product.named_rematerialized for product in matrix):
            self.first = _first_work(matrix)

    def _take_apart(self, reduction: Instruction) -> None:
        """Follow a reduction that was a dot product to its multiplication, through partial sums and out of fusions.

        The multiplication has the product's name or none; the program's own multiplications have other names.
        """
        sums: list[Instruction] = []
        instruction: Instruction | None = reduction
        for _ in range(_MAX_SUM_WALK):
            if instruction is None:
                return
            opcode = instruction.opcode
            if opcode == "parameter":
                instruction = argument(instruction)
            elif opcode == "fusion" and instruction.called:
                instruction = instruction.called[0].root
            elif opcode in _SUMS and _adds(instruction) and _of_a_product(instruction):
                sums.append(instruction)
                instruction = instruction.operand(0)
            elif opcode in _RENAMING and instruction.operands:
                instruction = instruction.operands[0]
            else:
                break
        if instruction is not None and instruction.opcode == "multiply" and _of_a_product(instruction):
            self.products.add(instruction)
            self.sums.update(sums)


def _is_product_of_library(instruction: Instruction) -> bool:
    return instruction.opcode == "custom-call" and instruction.target.startswith(_LIBRARIES)


def _adds(reduction: Instruction) -> bool:
    return bool(reduction.called) and reduction.called[0].root.opcode == "add"


def _of_a_product(instruction: Instruction) -> bool:
    return was_product(instruction) or not operation_name(instruction)


def _first_work(products: list[Instruction]) -> set[Instruction]:
    """Rematerialised products that are first work: their scope has no forward product of their shapes.

    Nor has it enough other forward products to stand for them. A compiler that finds the repeated product equal to the
    first keeps one of them, under either name. Of products that repeat each other, the
    least deeply rematerialised are the first.
    """
    forward: dict[str, float] = defaultdict(float)
    twins: set[tuple[str, tuple[int, ...]]] = set()
    again: dict[str, list[tuple[int, tuple[int, ...], Instruction]]] = defaultdict(list)
    for product in products:
        name = operation_name(product)
        scope, shapes = scope_of(name), _sizes(product)
        if AGAIN in name:
            again[scope].append((name.count(AGAIN), shapes, product))
        elif _BACKWARD not in name:
            forward[scope] += _weight(shapes)
            twins.add((scope, shapes))
    found: set[Instruction] = set()
    for scope, repeated in again.items():
        if forward[scope] >= sum(_weight(shapes) for _, shapes, _ in repeated):
            continue
        alone = [entry for entry in repeated if (scope, entry[1]) not in twins]
        least = min((depth for depth, _, _ in alone), default=0)
        found.update(product for depth, _, product in alone if depth == least)
    return found


def _sizes(product: Instruction) -> tuple[int, ...]:
    sides = sorted(operand.shape.elements for operand in product.operands[:2])
    return (*sides, product.shape.leaves()[0].elements)


def _weight(sizes: tuple[int, ...]) -> float:
    """The multiply-adds of a product: for m × k by k × n, the root of the product of the three sizes."""
    return prod(map(sqrt, sizes))
