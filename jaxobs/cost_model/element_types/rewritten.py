"""Finds products that the compiler rewrote as sums of multiplications, and first work named as rematerialised."""

from __future__ import annotations

from collections import defaultdict
from math import sqrt
from typing import Final

from jaxobs.cost_model.arithmetic.products import MULTIPLY_ADDS
from jaxobs.cost_model.element_types.source import argument
from jaxobs.cost_model.hlo.instructions import Computation, Instruction
from jaxobs.cost_model.hlo.scopes import operation_name, scope_of

_LONGEST_WALK: Final = 64
_SUMS: Final = frozenset(("reduce", "reduce-window"))
_RENAMING: Final = frozenset(("bitcast", "convert", "copy", "pad", "reshape", "transpose"))
_LIBRARIES: Final = ("__cublas$", "__cudnn$", "__onednn$")
_AGAIN: Final = "rematted_computation"
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
        repeats = False
        for computation in computations:
            for instruction in computation.instructions:
                opcode = instruction.opcode
                if opcode == "reduce":
                    if instruction.was_product:
                        self._take_apart(instruction)
                elif opcode in MULTIPLY_ADDS or (
                    opcode == "custom-call" and instruction.target.startswith(_LIBRARIES)
                ):
                    matrix.append(instruction)
                    repeats = repeats or instruction.named_rematerialized
        if repeats:
            self.first = _first_work(matrix)

    def _take_apart(self, reduction: Instruction) -> None:
        """Follow a reduction that was a dot product to its multiplication, through partial sums and out of fusions.

        The multiplication has the product's name or none; the program's own multiplications have other names.
        """
        sums: list[Instruction] = []
        instruction: Instruction | None = reduction
        for _ in range(_LONGEST_WALK):
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


def _adds(reduction: Instruction) -> bool:
    return bool(reduction.called) and reduction.called[0].root.opcode == "add"


def _of_a_product(instruction: Instruction) -> bool:
    return instruction.was_product or not operation_name(instruction)


def _first_work(products: list[Instruction]) -> set[Instruction]:
    """Rematerialised products that are first work: their scope has no forward product of their shapes.

    Nor has it enough other forward products to stand for them. A compiler that finds the repeated product equal to the
    first keeps one of them, under either name. Of products that repeat each other, the
    least deeply rematerialised are the first.
    """
    forward: dict[str, float] = defaultdict(float)
    twins: set[tuple[str, tuple[int, ...]]] = set()
    again: dict[str, list[tuple[int, tuple[int, ...], Instruction]]] = defaultdict(list)
    scopes: dict[str, str] = {}
    for product in products:
        name = operation_name(product)
        if name not in scopes:
            scopes[name] = scope_of(name)
        scope, shapes = scopes[name], _sizes(product)
        if _AGAIN in name:
            again[scope].append((name.count(_AGAIN), shapes, product))
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
    weight = 1.0
    for size in sizes:
        weight *= sqrt(size)
    return weight
