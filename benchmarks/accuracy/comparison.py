"""One program's cost by jaxobs and by others, beside its formula."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax

from benchmarks.accuracy.program import Program
from benchmarks.truths import Figure
from jaxobs.cost_model import Cost, module_cost
from jaxobs.cost_model.hlo.decode import decode

MATRIX, VECTOR, BYTES = 0.01, 0.05, 0.10
"""What a figure may be off by, where its analytic value is sharp."""

_WORK = {"dot", "convolution"}
_STRUCTURE = {"parameter", "constant", "tuple", "get-tuple-element", "fusion", "call"}
_MOVEMENT = {"bitcast", "copy", "transpose", "reshape"}
PURE_OPCODES = _WORK | _STRUCTURE | _MOVEMENT
"""Of a module that has real products and convolutions alone, and no loop: here XLA's FLOPs can be compared."""


@dataclass(frozen=True)
class Others:
    """What another tool says of a program: one figure for all FLOPs, and bytes; `error` where it said nothing."""

    flops: float | None = None
    bytes: float | None = None
    error: str = ""

    def right(self, program: Program) -> tuple[bool, bool]:
        """Whether its FLOPs and its bytes are right.

        Where a program has matrix FLOPs they may be 5 % off: such a tool counts vector work with them.
        """
        flops = None if program.unmodelled else program.matrix_flops or program.vector_flops
        return _near(self.flops, flops, VECTOR), _near(self.bytes, program.bytes, BYTES)


def _near(found: float | None, truth: float | None, tolerance: float) -> bool:
    return truth is not None and Figure("", found, truth, tolerance).verdict == "right"


@dataclass(frozen=True)
class Compared:
    """What was found for a program."""

    program: Program
    cost: Cost
    xla: Others
    pure: bool

    def figures(self) -> Iterator[Figure]:
        """Each figure that has a sharp value, and every flag."""
        program, cost = self.program, self.cost
        if program.unmodelled:
            yield Figure("unmodelled", bool(cost.unmodelled), True)
            return
        yield Figure("unmodelled", ", ".join(cost.unmodelled) or "nothing", "nothing")
        yield Figure("exact", cost.exact, program.exact, note=program.formula)
        for name, found, truth, tolerance in (
            ("matrix FLOPs", cost.matrix_flops, program.matrix_flops, MATRIX),
            ("vector FLOPs", cost.vector_flops, program.vector_flops, VECTOR),
            ("rematerialised FLOPs", cost.rematerialized_flops, program.rematerialized_flops, MATRIX),
            ("bytes", cost.bytes, program.bytes, BYTES),
            ("bytes sent", sum(cost.collective_bytes.values()), program.bytes_sent, BYTES),
        ):
            theirs = {"matrix FLOPs": self.xla.flops, "bytes": self.xla.bytes}.get(name)
            if truth is not None and (truth or found or name == "matrix FLOPs"):
                note = f"XLA {theirs:.5g}" if theirs is not None else ""
                yield Figure(name, found, truth, tolerance, note=note)
        if self.pure and cost.matrix_flops and self.xla.flops is not None:
            yield Figure("matrix FLOPs, beside XLA", cost.matrix_flops, self.xla.flops, MATRIX)


def compare(program: Program) -> Compared:
    """Compile the program, and read its cost in both ways."""
    compiled = jax.jit(program.function, **program.options).lower(*program.arguments).compile()
    executable: Any = compiled.runtime_executable()
    serialized = executable.hlo_modules()[0].as_serialized_hlo_module_proto()
    analysis: Any = compiled.cost_analysis()
    if isinstance(analysis, list):
        analysis = analysis[0] if analysis else {}
    analysis = analysis or {}
    cost = module_cost(serialized).cost
    opcodes = {one.opcode for part in decode(serialized).computations for one in part.instructions}
    real = not any(dtype.startswith("complex") for dtype in cost.matrix_flops_by_type)
    xla = Others(analysis.get("flops"), analysis.get("bytes accessed"))
    return Compared(program, cost, xla, pure=real and opcodes <= PURE_OPCODES)
