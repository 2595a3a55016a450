"""Prints, for each program of the suite, its analytic cost beside jaxobs's and XLA's.

``python -m benchmarks.accuracy`` from the repository's root; ``--only TEXT`` takes programs whose name has
the text. Exit status 1 where jaxobs is off: matrix FLOPs by more than 1 %, vector FLOPs by more than 5 %, bytes
by more than 10 %, or a flag that should be set and is not.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
os.environ.setdefault("JAX_PLATFORMS", "cpu")

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
from jaxobs.cost_model import Cost, module_cost

ROOMS = (products, convolutions, networks, attention, linear_algebra, loops, memory, distributed)
TOLERANCES = {"matrix": 0.01, "vector": 0.05, "bytes": 0.10}


def compiled_cost(program: Program) -> tuple[Cost, float | None, float | None]:
    """The compiled program's cost by jaxobs, and its FLOPs and bytes by XLA."""
    compiled = jax.jit(program.function, **program.options).lower(*program.arguments).compile()
    module = compiled.runtime_executable().hlo_modules()[0]
    analysis: Any = compiled.cost_analysis()
    if isinstance(analysis, list):
        analysis = analysis[0] if analysis else {}
    analysis = analysis or {}
    cost = module_cost(module.as_serialized_hlo_module_proto()).cost
    return cost, analysis.get("flops"), analysis.get("bytes accessed")


def _near(found: float | None, expected: float | None, tolerance: float) -> bool:
    if expected is None:
        return True
    return found is not None and abs(found - expected) <= tolerance * expected


def faults(program: Program, cost: Cost) -> list[str]:
    """What is wrong with a cost; empty where nothing is."""
    found = []
    if program.unmodelled:
        return [] if cost.unmodelled else ["should be unmodelled"]
    if cost.unmodelled:
        found.append(f"unmodelled {', '.join(cost.unmodelled)}")
    if cost.exact != program.exact:
        found.append("should be exact" if program.exact else "should be flagged")
    if not _near(cost.matrix_flops, program.matrix_flops, TOLERANCES["matrix"]):
        found.append("matrix FLOPs")
    if not _near(cost.vector_flops, program.vector_flops, TOLERANCES["vector"]):
        found.append("vector FLOPs")
    if not _near(cost.rematerialized_flops, program.rematerialized_flops, TOLERANCES["matrix"]):
        found.append("rematerialised FLOPs")
    if not _near(cost.bytes, program.bytes, TOLERANCES["bytes"]):
        found.append("bytes")
    return found


def _figure(value: float | None) -> str:
    return "—" if value is None else f"{value:,.0f}" if value < 1e12 else f"{value:.4g}"


def _ratio(found: float | None, expected: float | None) -> str:
    if found is None or expected is None:
        return "—"
    if expected == 0:
        return "0" if found == 0 else "∞"
    return f"{found / expected:.3f}"


def xla_is_right(program: Program, flops: float | None, moved: float | None) -> tuple[bool, bool]:
    """Whether XLA's FLOPs and bytes are within the tolerances; it has one figure for all FLOPs.

    So where a program has matrix FLOPs, XLA may be 5 % off: it counts vector work with them.
    """
    expected = program.matrix_flops or program.vector_flops
    good = expected is not None and not program.unmodelled and _near(flops, expected, TOLERANCES["vector"])
    return good, program.bytes is not None and _near(moved, program.bytes, TOLERANCES["bytes"])


HEADER = ("program", "matrix FLOPs", "jaxobs", "XLA", "vector FLOPs", "jaxobs", "bytes", "jaxobs", "XLA", "")
WIDTHS = (43, 15, 7, 9, 13, 7, 13, 7, 9, 0)


def _print_row(*cells: str) -> None:
    padded = [cell.ljust(width) if not place else cell.rjust(width) for place, (cell, width) in
              enumerate(zip(cells, WIDTHS, strict=True))]  # fmt: skip
    print("  ".join(padded).rstrip(), flush=True)


def main() -> int:
    """Print the table and the counts; 1 where any figure of jaxobs is off."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT")
    only = parser.parse_args().only
    programs = [program for room in ROOMS for program in room.PROGRAMS if only in program.name]
    _print_row(*HEADER)
    wrong = xla_flops = xla_bytes = sharp_bytes = 0
    for program in programs:
        cost, flops, moved = compiled_cost(program)
        problems = faults(program, cost)
        wrong += bool(problems)
        good_flops, good_bytes = xla_is_right(program, flops, moved)
        xla_flops += good_flops
        xla_bytes += good_bytes
        sharp_bytes += program.bytes is not None
        matrix = None if program.unmodelled else program.matrix_flops
        _print_row(
            program.name,
            _figure(matrix),
            _ratio(cost.matrix_flops, matrix),
            _ratio(flops, matrix),
            _figure(program.vector_flops),
            _ratio(cost.vector_flops, program.vector_flops),
            _figure(program.bytes),
            _ratio(cost.bytes, program.bytes),
            _ratio(moved, program.bytes),
            ", ".join(problems),
        )
    print(f"\n{len(programs)} programs; jaxobs right on {len(programs) - wrong}, "
          f"XLA's FLOPs on {xla_flops}, its bytes on {xla_bytes} of the {sharp_bytes} with a sharp value.")  # fmt: skip
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
