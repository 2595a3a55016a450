"""The type a product really runs in, and in how many passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from jaxobs.cost_model.instructions import Instruction
    from jaxobs.cost_model.shapes import Shape

# PrecisionConfig.Algorithm of openxla/xla, xla/xla_data.proto: the type of the multiplications, and how many
# products of that type stand in for one. TF32 is a mode of float32 products, and named as such.
_ALGORITHMS: Final[dict[int, tuple[str, int]]] = {
    3: ("float16", 1),
    4: ("float16", 1),
    5: ("bfloat16", 1),
    6: ("bfloat16", 1),
    7: ("bfloat16", 3),
    8: ("bfloat16", 6),
    9: ("tensorfloat32", 1),
    10: ("tensorfloat32", 3),
    11: ("float32", 1),
    12: ("float64", 1),
    13: ("bfloat16", 9),
}


def executed_products(instruction: Instruction, left: Shape, right: Shape) -> tuple[str, int]:
    """The real element type in which the instruction multiplies, and its passes for each product asked for.

    Without a precision algorithm it is the wider of the operands' types, a complex one by its parts.
    """
    message = instruction.message
    if message.HasField("precision_config"):
        chosen = _ALGORITHMS.get(message.precision_config.algorithm)
        if chosen is not None:
            return chosen
    floating = [shape.type for shape in (left, right) if shape.floating]
    widest = max(floating, key=lambda type_: type_.bits)
    return widest.part, 1
