"""One program's cost by jaxobs and by XLA, and what is wrong with either."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax

from benchmarks.accuracy.program import Program
from jaxobs.cost_model import Cost, ModuleCost, module_cost
from jaxobs.cost_model.hlo.decode import decode

MATRIX, VECTOR, BYTES = 0.01, 0.05, 0.10
"""What a figure may be off by, where its analytic value is sharp."""

_WORK = {"dot", "convolution"}
_STRUCTURE = {"parameter", "constant", "tuple", "get-tuple-element", "fusion", "call"}
_MOVEMENT = {"bitcast", "copy", "transpose", "reshape"}
PURE_OPCODES = _WORK | _STRUCTURE | _MOVEMENT
"""Of a module that has real products and convolutions alone, and no loop: here XLA's FLOPs can be compared."""


@dataclass(frozen=True)
class Compared:
    """What was found for a program; XLA's figures are None where it gives none."""

    program: Program
    cost: Cost
    xla_flops: float | None
    xla_bytes: float | None
    is_pure: bool

    @property
    def faults(self) -> list[str]:
        """What is wrong with jaxobs's cost; empty where nothing is."""
        program, cost = self.program, self.cost
        if program.unmodelled:
            return [] if cost.unmodelled else ["should be unmodelled"]
        found = [f"unmodelled {name}" for name in cost.unmodelled]
        if cost.exact != program.exact:
            found.append("should be exact" if program.exact else "should be flagged")
        sent = sum(cost.collective_bytes.values())
        compared = (
            ("matrix FLOPs", cost.matrix_flops, program.matrix_flops, MATRIX),
            ("vector FLOPs", cost.vector_flops, program.vector_flops, VECTOR),
            ("rematerialised FLOPs", cost.rematerialized_flops, program.rematerialized_flops, MATRIX),
            ("bytes", cost.bytes, program.bytes, BYTES),
            ("bytes sent", sent, program.bytes_sent, BYTES),
        )
        return found + [name for name, value, expected, off in compared if not near(value, expected, off)]

    def flops_right(self, flops: float | None) -> bool:
        """Whether a tool's one figure for all FLOPs is right.

        Where a program has matrix FLOPs it may be 5 % off: such a tool counts vector work with them.
        """
        expected = self.program.matrix_flops or self.program.vector_flops
        return expected is not None and not self.program.unmodelled and near(flops, expected, VECTOR)

    def bytes_right(self, moved: float | None) -> bool:
        """Whether a tool's bytes are right, where the analytic value is sharp."""
        return self.program.bytes is not None and near(moved, self.program.bytes, BYTES)

    @property
    def xla_difference(self) -> float | None:
        """Relative difference of XLA's FLOPs from jaxobs's where they count the same work, else None."""
        if not self.is_pure or not self.cost.matrix_flops or self.xla_flops is None:
            return None
        return abs(self.xla_flops - self.cost.matrix_flops) / self.cost.matrix_flops


def compare(program: Program) -> Compared:
    """Compile the program, and read its cost in both ways."""
    compiled = jax.jit(program.function, **program.options).lower(*program.arguments).compile()
    executable: Any = compiled.runtime_executable()
    serialized = executable.hlo_modules()[0].as_serialized_hlo_module_proto()
    analysis: Any = compiled.cost_analysis()
    if isinstance(analysis, list):
        analysis = analysis[0] if analysis else {}
    analysis = analysis or {}
    module = module_cost(serialized)
    pure = _is_pure(serialized, module)
    return Compared(program, module.cost, analysis.get("flops"), analysis.get("bytes accessed"), pure)


def near(found: float | None, expected: float | None, tolerance: float) -> bool:
    """Whether a figure is as expected; always where nothing is expected."""
    if expected is None:
        return True
    return found is not None and abs(found - expected) <= tolerance * expected


def _is_pure(serialized: bytes, module: ModuleCost) -> bool:
    computations = decode(serialized).computations
    opcodes = {instruction.opcode for computation in computations for instruction in computation.instructions}
    real = not any(dtype.startswith("complex") for dtype in module.cost.matrix_flops_by_type)
    return opcodes <= PURE_OPCODES and real
