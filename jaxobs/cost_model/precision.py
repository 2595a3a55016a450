"""Finds the type that a product is executed in, and the precision or algorithm by which a device may take another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from jaxobs.cost_model.hlo.instructions import Instruction, Shape

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

# cuBLAS's type of computation for each algorithm (openxla/xla, xla/service/algorithm_util.cc, GetBlasComputationType).
# Algorithms of several passes are split up earlier: a call that still names one runs once, in float32.
_OF_CUBLAS: Final[dict[str, str]] = {
    "ALG_DOT_F16_F16_F16": "float16",
    "ALG_DOT_F16_F16_F32": "float16",
    "ALG_DOT_BF16_BF16_F32": "bfloat16",
    "ALG_DOT_TF32_TF32_F32": "tensorfloat32",
    "ALG_DOT_F64_F64_F64": "float64",
}
_NO_ALGORITHM: Final = ("ALG_UNSET", 0, "0")

# PrecisionConfig.Precision, as JAX calls it; by the next one, `highest`, float32 is multiplied as such.
_LEFT_TO_THE_DEVICE: Final = ("default", "high")

FLOAT32_SOURCES: Final = ("float32", "complex64")
"""Types whose products multiply float32 numbers."""


class Executed(NamedTuple):
    """The type and precision in which a product is executed."""

    type: str
    """The real element type in which it multiplies; float32 where the device decides."""
    precision: str | None = None
    """What a float32 product asks for if it may run in a faster type: `default` or `high`, which let the device choose,
    or an algorithm's type and passes, as `bfloat16_x3`; else None."""


def executed_product(instruction: Instruction, left: Shape, right: Shape) -> Executed:
    """The execution of a product of two shapes, of which at least one is floating.

    Without a precision algorithm its type is the wider of the operands' types, or for a complex one that of its parts.
    """
    floating = [shape.type for shape in (left, right) if shape.floating]
    widest = max(floating, key=lambda type_: type_.bits).part
    message = instruction.message
    asked = 0
    if message.HasField("precision_config"):
        chosen = _ALGORITHMS.get(message.precision_config.algorithm)
        if chosen is not None:
            return _by_algorithm(widest, *chosen)
        asked = max(message.precision_config.operand_precision, default=0)
    return _without_algorithm(widest, asked)


def executed_by_cudnn(instruction: Instruction, type_: str) -> Executed:
    """The execution of a convolution in cuDNN, where TensorFloat-32 is allowed up to `high`.

    Source: openxla/xla, conv_algorithm_picker.cc.
    """
    asked = max(instruction.message.precision_config.operand_precision, default=0)
    return _without_algorithm(type_, 0 if asked < 2 else asked)


def executed_by_cublas(configuration: Mapping[str, Any], type_: str) -> Executed:
    """The execution of a product in cuBLAS, from the ``precision_config`` of its backend configuration.

    Without an algorithm TensorFloat-32 is allowed up to `high` (openxla/xla, xla/service/gpu/matmul_utils.cc).
    """
    given = configuration.get("precision_config") or {}
    algorithm = given.get("algorithm", "ALG_UNSET")
    if algorithm not in _NO_ALGORITHM:
        return _by_algorithm(type_, _OF_CUBLAS.get(algorithm, type_))
    asked = {str(each).upper() for each in given.get("operand_precision", ())}
    return _without_algorithm(type_, 2 if asked - {"DEFAULT", "HIGH", "0", "1"} else 0)


def _by_algorithm(type_: str, taken: str, passes: int = 1) -> Executed:
    """The execution by an algorithm that takes products of another type. CPUs multiply float32 as such all the same."""
    if type_ != "float32":
        return Executed(taken)
    return Executed(type_, None if taken == type_ else f"{taken}_x{passes}")


def _without_algorithm(type_: str, asked: int) -> Executed:
    left = type_ == "float32" and 0 <= asked < len(_LEFT_TO_THE_DEVICE)
    return Executed(type_, _LEFT_TO_THE_DEVICE[asked] if left else None)
