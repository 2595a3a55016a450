"""How many HLO instructions a second `module_cost` reads, decoding included, on one core.

Run `python -m benchmarks.decoding`. The module is made here, without JAX: layers of products, fusions of
elementwise work, slices and loops, in the proportions of a compiled transformer step.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

from jaxobs.cost_model import module_cost
from jaxobs.proto.messages import MetadataMessage, ModuleMessage, ShapeMessage

_FLOAT32 = 11
_FUSED = (
    "multiply", "add", "tanh", "subtract", "exponential", "divide", "maximum", "convert", "negate", "add",
)  # fmt: skip


def _shape(*dimensions: int) -> bytes:
    serialized: bytes = ShapeMessage(element_type=_FLOAT32, dimensions=dimensions).SerializeToString()
    return serialized


def generated_module(instructions: int) -> bytes:
    """A serialized module of about so many instructions."""
    module = ModuleMessage(name=b"generated", entry_computation_id=1)
    entry = module.computations.add(name=b"main", id=1, root_id=0)
    square = _shape(256, 256)
    identifier = 0

    def add(computation: Any, opcode: str, operands: list[int], **attributes: object) -> int:
        nonlocal identifier
        identifier += 1
        metadata = MetadataMessage(
            op_name=f"jit(step)/transpose(jvp(layer_{identifier % 97}))/{opcode}".encode(),
            source_file=b"model.py",
            source_line=identifier % 500,
        ).SerializeToString()
        computation.instructions.add(
            name=f"{opcode}.{identifier}".encode(),
            opcode=opcode.encode(),
            shape=square,
            id=identifier,
            operand_ids=operands,
            metadata=metadata,
            **attributes,
        )
        return identifier

    value = add(entry, "parameter", [], parameter_number=0)
    weight = add(entry, "parameter", [], parameter_number=1)
    while identifier < instructions:
        fused = module.computations.add(name=f"fused.{identifier}".encode(), id=1000 + identifier)
        first = add(fused, "parameter", [], parameter_number=0)
        second = add(fused, "parameter", [], parameter_number=1)
        last = first
        for opcode in _FUSED:
            binary = opcode in ("multiply", "add", "subtract", "divide", "maximum")
            last = add(fused, opcode, [last, second] if binary else [last])
        fused.root_id = last
        product = add(entry, "dot", [value, weight])
        numbers = entry.instructions[-1].dot_dimension_numbers
        numbers.lhs_contracting_dimensions.append(1)
        numbers.rhs_contracting_dimensions.append(0)
        renamed = add(entry, "bitcast", [product])
        value = add(entry, "fusion", [renamed, value], called_computation_ids=[fused.id])
    entry.root_id = value
    serialized: bytes = module.SerializeToString()
    return serialized


def main() -> None:
    """Print the rate of some runs over one generated module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instructions", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    serialized = generated_module(arguments.instructions)
    count = sum(len(part.instructions) for part in ModuleMessage.FromString(serialized).computations)
    rates = []
    for _ in range(arguments.repeat):
        start = time.perf_counter()
        module_cost(serialized)
        rates.append(count / (time.perf_counter() - start))
    print(
        f"{count} instructions, {len(serialized) / 1e6:.1f} MB: median {statistics.median(rates):,.0f}, "
        f"least {min(rates):,.0f}, most {max(rates):,.0f} instructions/s"
    )


if __name__ == "__main__":
    main()
