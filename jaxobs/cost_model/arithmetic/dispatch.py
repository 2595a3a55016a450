"""Counts the FLOPs and transcendentals of an instruction, and of the computations that run inside one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import ceil, log2, prod
from typing import ClassVar, Final

from jaxobs.cost_model.arithmetic.products import (
    MULTIPLY_ADDS,
    dimension_positions,
    matrix_amounts,
    met_outputs,
    multiply_add_flops,
)
from jaxobs.cost_model.bounds import Bounds
from jaxobs.cost_model.collectives import fused_collective_cost, group_size
from jaxobs.cost_model.custom_calls.protocol import RULED, CustomCall, Rule, cost_by_rule
from jaxobs.cost_model.hlo.instructions import (
    ARITHMETIC,
    COMMUNICATION,
    CONTROL,
    FREE,
    MOVEMENT,
    NO_FLOPS,
    TRANSCENDENTAL,
    Computation,
    HloDecodeError,
    Instruction,
)
from jaxobs.cost_model.hlo.scopes import was_product
from jaxobs.cost_model.precision import FLOAT32_SOURCES, executed_product
from jaxobs.cost_model.source_types import Rewritten, SourceTypes
from jaxobs.cost_model.traffic import FusionTraffic
from jaxobs.model.cost import NO_COST, Cost, sum_of
from jaxobs.proto.element_types import Kind

# How often opcodes with a scalar computation, such as reductions, apply it.


def _reduce(instruction: Instruction) -> float:
    """Applications in a reduction of n elements to m results: n − m, since the initial value is neutral."""
    return instruction.operand(0).shape.elements - instruction.shape.leaves()[0].elements


def _reduce_window(instruction: Instruction) -> float:
    """The elements in each window less one, summed over all windows with any element; padding is no element."""
    given, result = instruction.operand(0).shape.dimensions, instruction.shape.leaves()[0].dimensions
    window = instruction.message.window.dimensions
    if not len(given) == len(window) == len(result):
        raise HloDecodeError(f"reduce-window {instruction.name!r} whose window does not fit its shapes")
    along = list(zip(window, given, result, strict=True))
    elements = prod(dimension_positions(dimension, size, length) for dimension, size, length in along)
    return elements - prod(met_outputs(dimension, size, length) for dimension, size, length in along)


def _sort(instruction: Instruction) -> float:
    """Comparisons: n ⌈log₂ n⌉ for each row of n; a comparator rarely has any floating arithmetic."""
    keys = instruction.operand(0).shape
    axis = next(iter(instruction.message.dimensions), len(keys.dimensions) - 1)
    if not 0 <= axis < len(keys.dimensions):
        raise HloDecodeError(f"sort {instruction.name!r} along dimension {axis} of {list(keys.dimensions)}")
    length = keys.dimensions[axis]
    return float(keys.elements) * ceil(log2(length)) if length > 1 else 0.0


def fft_flops(instruction: Instruction) -> float:
    """FLOPs of all transforms of an ``fft`` instruction: 5 N log₂ N each, or half of it where one side is real.

    The usual convention (benchFFT, M. Frigo and S. G. Johnson), whatever the algorithm; a transform of several dimensions
    counts as one of as many points.
    """
    given, result = instruction.operand(0).shape, instruction.shape
    points: int = prod(instruction.message.fft_length)
    if points < 2:
        return 0.0
    between_complexes = given.type.kind is Kind.COMPLEX and result.type.kind is Kind.COMPLEX
    # Of a real signal's spectrum only half is stored, so the transforms are counted on the real side.
    whole = given if given.type.kind is not Kind.COMPLEX else result
    return whole.elements / points * (5.0 if between_complexes else 2.5) * points * log2(points)


def _collective_reduction(instruction: Instruction) -> float:
    """One device's share, (n − 1)/n · S, of the work in which n devices combine n copies of S elements."""
    members = group_size(instruction) or 1
    elements = sum(operand.shape.elements for operand in instruction.operands)
    return elements * (members - 1) / members


APPLICATIONS: Final[dict[str, Callable[[Instruction], float]]] = {
    "reduce": _reduce,
    "reduce-window": _reduce_window,
    "scatter": lambda one: one.operand(-1).shape.elements,  # one for each element of the updates
    "select-and-scatter": lambda one: one.operand(1).shape.elements,  # of the source; selecting only compares
    "map": lambda one: one.shape.elements,
    "sort": _sort,
    **dict.fromkeys(("all-reduce", "all-reduce-start", "reduce-scatter"), _collective_reduction),
}
"""Counts by opcode. The computation applied is the first one called, or for select-and-scatter the second."""


class Arithmetic:
    """Adds up the arithmetic of a module's instructions; each computation inside an instruction is added up once."""

    def __init__(
        self, computations: list[Computation], rules: Mapping[str, Rule], fusions: FusionTraffic
    ) -> None:
        self._rules = rules
        self.rewritten = Rewritten(computations)
        self._fusions = fusions
        self.types = SourceTypes(computations)
        self._bounds = Bounds()

    def prepare(self, computation: Computation) -> None:
        """Add up a computation that runs inside an instruction; what it calls must have been prepared."""
        parts, (*_, need) = [], self._fusions.of(computation)
        for instruction in computation.instructions:
            if instruction.opcode not in CONTROL:
                part = need.part(instruction)
                parts += [(self.cost(instruction), part), (fused_collective_cost(instruction), part)]
        # Inside a fusion nothing moves to or from device memory; the fusion's traffic is counted at its boundary.
        self._bounds.add(computation, [replace(sum_of(parts), bytes=0.0)])

    def cost(self, instruction: Instruction) -> Cost:
        """The arithmetic of one run of ``instruction``, which is no loop, call or conditional."""
        if (handler := self._HANDLERS.get(instruction.opcode)) is not None:
            return handler(self, instruction)
        return NO_COST if instruction.opcode in _NOTHING else Cost(unmodelled=(instruction.opcode,))

    def _elementwise(self, instruction: Instruction) -> Cost:
        shape = instruction.shape
        if not shape.floating:
            return NO_COST
        flops = ARITHMETIC[instruction.opcode][shape.type.kind is Kind.COMPLEX] * shape.elements
        rewritten = instruction in self.rewritten.products
        if instruction.opcode != "multiply" or not (rewritten or was_product(instruction)):
            return Cost(vector_flops_by_type={shape.type.part: flops})
        left, right = instruction.operand(0), instruction.operand(1)
        if rewritten:
            flops = multiply_add_flops(left.shape, right.shape) * shape.elements
        source = self.types.of_product(left, right).name
        return Cost(**matrix_amounts(source, shape.type.part, flops, instruction.rematerialized))

    def _transcendental(self, instruction: Instruction) -> Cost:
        shape = instruction.shape
        evaluations = {Kind.REAL: 1.0, Kind.COMPLEX: 2.0}.get(shape.type.kind, 0.0)
        return Cost(transcendentals=shape.elements * evaluations)

    def _magnitude(self, instruction: Instruction) -> Cost:
        """An ``abs``: of a complex number the root of a sum of two squares, of a real one a sign bit."""
        given = instruction.operand(0).shape
        is_complex = given.type.kind is Kind.COMPLEX
        return Cost(vector_flops_by_type={given.type.part: 4.0 * given.elements} if is_complex else {})

    def _product(self, instruction: Instruction) -> Cost:
        left, right = instruction.operand(0), instruction.operand(1)
        per_multiply_add = multiply_add_flops(left.shape, right.shape)
        if not per_multiply_add:
            return Cost(unmodelled=(f"{instruction.opcode} of integers",))
        flops = per_multiply_add * MULTIPLY_ADDS[instruction.opcode](instruction)
        source = self.types.of_product(left, right).name
        executed = executed_product(instruction, left.shape, right.shape)
        precision = executed.precision if source in FLOAT32_SOURCES else None
        amounts = matrix_amounts(source, executed.type, flops, instruction.rematerialized, precision)
        if executed.precision is not None and precision is None:
            amounts["widened_flops_by_precision"] = {executed.precision: flops}
        return Cost(**amounts)

    def _fft(self, instruction: Instruction) -> Cost:
        return Cost(vector_flops_by_type={instruction.shape.type.part: fft_flops(instruction)})

    def _applications(self, instruction: Instruction) -> Cost:
        first = 1 if instruction.opcode == "select-and-scatter" else 0
        applied = instruction.called[first : first + 1]
        times = APPLICATIONS[instruction.opcode](instruction)
        is_counted = applied and times > 0 and instruction not in self.rewritten.sums
        return self._bounds.least[applied[0]].scaled(times) if is_counted else NO_COST

    def _fusion(self, instruction: Instruction) -> Cost:
        return self._bounds.least[instruction.called[0]] if instruction.called else NO_COST

    def _custom_call(self, instruction: Instruction) -> Cost:
        return cost_by_rule(CustomCall(instruction), self._rules)

    _HANDLERS: ClassVar[dict[str, Callable[[Arithmetic, Instruction], Cost]]] = {
        **dict.fromkeys(ARITHMETIC, _elementwise),
        **dict.fromkeys(TRANSCENDENTAL, _transcendental),
        **dict.fromkeys(MULTIPLY_ADDS, _product),
        **dict.fromkeys(APPLICATIONS, _applications),
        "abs": _magnitude,
        "fft": _fft,
        "fusion": _fusion,
        **dict.fromkeys(RULED, _custom_call),
    }
    """Methods by opcode, unbound: an instance that held bound ones would be a cycle for the garbage collector."""


_NOTHING: Final = FREE | MOVEMENT | NO_FLOPS | COMMUNICATION
