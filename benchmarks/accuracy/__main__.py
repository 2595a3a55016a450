"""Holds, for each program of the suite, jaxobs's cost against formulas, with XLA's figures beside it.

``python -m benchmarks.accuracy`` from the repository's root; ``--only attention,loops`` takes the programs of
these files. Exit status 1 where jaxobs is off: matrix FLOPs by more than 1 %, vector FLOPs by more than 5 %, bytes by
more than 10 %, a flag that should be set and is not, or more than 1 % between jaxobs and XLA where both count the same
work.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import jax

from benchmarks.accuracy import (
    attention,
    convolutions,
    distributed,
    linear_algebra,
    loops,
    memory,
    networks,
    products,
)
from benchmarks.accuracy.program import Program
from benchmarks.truths import Figure, Table, chosen, options_of
from jaxobs.cost_model import module_cost
from jaxobs.cost_model.hlo.decode import decoded
from jaxobs.cost_model.hlo.instructions import instructions_of

ROOMS = (products, convolutions, networks, attention, linear_algebra, loops, memory, distributed)

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
    analysis: Any = compiled.cost_analysis() or {}
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
    with decoded(serialized) as module:
        opcodes = {one.opcode for one in instructions_of(module.computations)}
    real = not any(dtype.startswith("complex") for dtype in cost.matrix_flops_by_type)
    if real and opcodes <= PURE_OPCODES and cost.matrix_flops and xla["matrix FLOPs"] is not None:
        yield Figure("matrix FLOPs, beside XLA", cost.matrix_flops, xla["matrix FLOPs"], MATRIX)


def main() -> int:
    """Print the table and the counts; 1 where any figure of jaxobs is off."""
    options = options_of(__doc__).parse_args()
    print(f"JAX {jax.__version__} on {jax.devices()[0].device_kind}; formulas: benchmarks/accuracy/*.py")
    rooms = ((room.__name__.rpartition(".")[2], program) for room in ROOMS for program in room.PROGRAMS)
    table, right, every = Table(), 0, chosen(options.only, rooms)
    for program in every:
        figures = list(compare(program))
        table.add(program.name, figures)
        right += all(one.verdict == "right" for one in figures)
    status = table.status()
    print(
        f"jaxobs is right on {right} programs of {len(every)}, in every figure that has a sharp value and every flag."
    )
    return status


if __name__ == "__main__":
    sys.exit(main())
