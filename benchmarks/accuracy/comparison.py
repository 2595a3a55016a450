"""One program's cost by jaxobs, beside its formula and XLA's own analysis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax

from benchmarks.accuracy.program import Program
from benchmarks.truths import Figure
from jaxobs.cost_model import module_cost
from jaxobs.cost_model.hlo.decode import decode

MATRIX, VECTOR, BYTES = 0.01, 0.05, 0.10
"""What a figure may be off by, where its analytic value is sharp."""

_WORK = {"dot", "convolution"}
_STRUCTURE = {"parameter", "constant", "tuple", "get-tuple-element", "fusion", "call"}
_MOVEMENT = {"bitcast", "copy", "transpose", "reshape"}
PURE_OPCODES = _WORK | _STRUCTURE | _MOVEMENT
"""Of a module that has real products and convolutions alone, and no loop: here XLA's FLOPs can be compared."""


def compare(program: Program) -> Iterator[Figure]:
    """Compile the program, and hold each figure of its cost that has a sharp value, and every flag."""
    compiled = jax.jit(program.function, **program.options).lower(*program.arguments).compile()
    executable: Any = compiled.runtime_executable()
    serialized = executable.hlo_modules()[0].as_serialized_hlo_module_proto()
    analysis: Any = compiled.cost_analysis()
    if isinstance(analysis, list):
        analysis = analysis[0] if analysis else {}
    analysis = analysis or {}
    xla = {"matrix FLOPs": analysis.get("flops"), "bytes": analysis.get("bytes accessed")}
    cost = module_cost(serialized).cost
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
        if truth is not None and (truth or found or name == "matrix FLOPs"):
            note = f"XLA {theirs:.5g}" if (theirs := xla.get(name)) is not None else ""
            yield Figure(name, found, truth, tolerance, note=note)
    opcodes = {one.opcode for part in decode(serialized).computations for one in part.instructions}
    real = not any(dtype.startswith("complex") for dtype in cost.matrix_flops_by_type)
    if real and opcodes <= PURE_OPCODES and cost.matrix_flops and xla["matrix FLOPs"] is not None:
        yield Figure("matrix FLOPs, beside XLA", cost.matrix_flops, xla["matrix FLOPs"], MATRIX)
