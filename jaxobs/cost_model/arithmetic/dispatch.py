"""Counts the FLOPs and transcendentals of an instruction, and of the computations that run inside one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Final

from jaxobs.cost_model.arithmetic.applications import APPLICATIONS
from jaxobs.cost_model.arithmetic.factorisations import FACTORISATIONS, fft_flops
from jaxobs.cost_model.arithmetic.products import MULTIPLY_ADDS, multiply_add_flops
from jaxobs.cost_model.arithmetic.tally import Tally
from jaxobs.cost_model.bounds import Bounds
from jaxobs.cost_model.collectives import add_fused_collective
from jaxobs.cost_model.custom_calls.protocol import CustomCall, Rule, apply_rule
from jaxobs.cost_model.hlo.instructions import (
    ARITHMETIC,
    COMMUNICATION,
    CONTROL,
    FREE,
    MOVEMENT,
    NO_FLOPS,
    TRANSCENDENTAL,
    Computation,
    Instruction,
)
from jaxobs.cost_model.precision import FLOAT32_SOURCES, executed_product
from jaxobs.cost_model.source_types import Rewritten, SourceTypes
from jaxobs.proto.element_types import Kind


class Arithmetic:
    """Adds up the arithmetic of a module's instructions; each computation inside an instruction is added up once."""

    def __init__(
        self, computations: list[Computation], rules: Mapping[str, Rule], rewritten: Rewritten
    ) -> None:
        self._rules = rules
        self._rewritten = rewritten
        self.types = SourceTypes(computations)
        self._bounds = Bounds()
        self.whole = self._bounds.least

    def prepare(self, computation: Computation) -> None:
        """Add up a computation that runs inside an instruction; what it calls must have been prepared."""
        tally, control = Tally(), []
        for instruction in computation.instructions:
            if instruction.opcode in CONTROL:
                control.append(instruction)
            else:
                self.add(instruction, tally)
                add_fused_collective(instruction, computation, tally)
        # Inside a fusion nothing moves to or from device memory; the fusion's traffic is counted at its boundary.
        tally.bytes = 0.0
        self._bounds.add(computation, tally, control)

    def add(self, instruction: Instruction, tally: Tally) -> None:
        """Add the arithmetic of one run of ``instruction``, which is no loop, call or conditional."""
        if (handler := self._HANDLERS.get(instruction.opcode)) is not None:
            handler(self, instruction, tally)
        elif instruction.opcode not in _NOTHING:
            tally.add_unmodelled([instruction.opcode])

    def _add_elementwise(self, instruction: Instruction, tally: Tally) -> None:
        shape = instruction.shape
        if not shape.floating:
            return
        flops = ARITHMETIC[instruction.opcode][shape.type.kind is Kind.COMPLEX] * shape.elements
        if instruction.opcode == "multiply" and (
            instruction.was_product or instruction in self._rewritten.products
        ):
            left, right = instruction.operand(0), instruction.operand(1)
            if instruction in self._rewritten.products:
                flops = multiply_add_flops(left.shape, right.shape) * shape.elements
            source = self.types.of_product(left, right).name
            tally.add_matrix(source, shape.type.part, flops, instruction.rematerialized)
        else:
            tally.add_vector(shape.type.part, flops)

    def _add_transcendental(self, instruction: Instruction, tally: Tally) -> None:
        shape = instruction.shape
        if shape.floating:
            tally.transcendentals += shape.elements * (2 if shape.type.kind is Kind.COMPLEX else 1)

    def _add_magnitude(self, instruction: Instruction, tally: Tally) -> None:
        """Add an ``abs``: of a complex number the root of a sum of two squares, of a real one a sign bit."""
        given = instruction.operand(0).shape
        if given.type.kind is Kind.COMPLEX:
            tally.add_vector(given.type.part, 3.0 * given.elements)
            tally.transcendentals += given.elements

    def _add_product(self, instruction: Instruction, tally: Tally) -> None:
        left, right = instruction.operand(0), instruction.operand(1)
        per_multiply_add = multiply_add_flops(left.shape, right.shape)
        if not per_multiply_add:
            return
        flops = per_multiply_add * MULTIPLY_ADDS[instruction.opcode](instruction)
        source = self.types.of_product(left, right).name
        executed = executed_product(instruction, left.shape, right.shape)
        precision = executed.precision if source in FLOAT32_SOURCES else None
        tally.add_matrix(source, executed.type, flops, instruction.rematerialized, precision)
        if executed.precision is not None and precision is None:
            tally.add_widened(executed.precision, flops)
        if executed.passes > 1:
            tally.add_executed(executed.type, flops * (executed.passes - 1))

    def _add_factorisation(self, instruction: Instruction, tally: Tally) -> None:
        type_ = instruction.operand(0).shape.type
        flops = FACTORISATIONS[instruction.opcode](instruction) * (4 if type_.kind is Kind.COMPLEX else 1)
        tally.add_matrix(type_.name, type_.part, flops, instruction.rematerialized)

    def _add_fft(self, instruction: Instruction, tally: Tally) -> None:
        tally.add_vector(instruction.shape.type.part, fft_flops(instruction))

    def _add_applications(self, instruction: Instruction, tally: Tally) -> None:
        applied = (
            instruction.called[1:2] if instruction.opcode == "select-and-scatter" else instruction.called[:1]
        )
        times = APPLICATIONS[instruction.opcode](instruction)
        if applied and times > 0 and instruction not in self._rewritten.sums:
            tally.add(self.whole[applied[0]], times)

    def _add_fusion(self, instruction: Instruction, tally: Tally) -> None:
        for computation in instruction.called[:1]:
            tally.add(self.whole[computation])

    def _add_custom_call(self, instruction: Instruction, tally: Tally) -> None:
        apply_rule(CustomCall(instruction), self._rules, tally)

    _HANDLERS: ClassVar[dict[str, Callable[[Arithmetic, Instruction, Tally], None]]] = {
        **dict.fromkeys(ARITHMETIC, _add_elementwise),
        **dict.fromkeys(TRANSCENDENTAL, _add_transcendental),
        **dict.fromkeys(MULTIPLY_ADDS, _add_product),
        **dict.fromkeys(FACTORISATIONS, _add_factorisation),
        **dict.fromkeys(APPLICATIONS, _add_applications),
        "abs": _add_magnitude,
        "fft": _add_fft,
        "fusion": _add_fusion,
        "custom-call": _add_custom_call,
    }
    """Methods by opcode, unbound: an instance that held bound ones would be a cycle for the garbage collector."""


_NOTHING: Final = FREE | MOVEMENT | NO_FLOPS | COMMUNICATION
