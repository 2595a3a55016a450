"""Finds arguments whose buffers a module's outputs could take over, if the caller donated them."""

from __future__ import annotations

from collections import Counter

from jaxobs.cost_model.hlo.instructions import Module
from jaxobs.cost_model.hlo.shapes import Shape


def donatable_bytes(module: Module) -> float:
    """Bytes on one device of the arguments with the element type and dimensions of an output.

    JAX requires these of a donated argument. Each argument and each output counts once, and those already donated do
    not count. Whether the caller uses the argument again cannot be seen here.
    """
    entries = module.message.input_output_alias.entries
    taken = {entry.parameter_number for entry in entries}
    filled = {tuple(entry.output_shape_index) for entry in entries}
    root = module.entry.root.shape
    outputs = root.parts or (root,)
    free = Counter(
        _kind(shape) for index, shape in enumerate(outputs) if not shape.parts and not {(), (index,)} & filled
    )
    parameters = Counter(
        _kind(instruction.shape)
        for instruction in module.entry.instructions
        if instruction.opcode == "parameter"
        and not instruction.shape.parts
        and instruction.message.parameter_number not in taken
    )
    both = free & parameters
    return float(sum(amount * count for (_, _, amount), count in both.items()))


def _kind(shape: Shape) -> tuple[str, tuple[int, ...], float]:
    return shape.type.name, shape.dimensions, shape.bytes
