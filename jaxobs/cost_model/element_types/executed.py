"""Finds the element types in which a compiled module's products run: a compiler converts types without arithmetic."""

from __future__ import annotations

from collections.abc import Iterator

from jaxobs.cost_model.arithmetic.products import MULTIPLY_ADDS
from jaxobs.cost_model.custom_calls import BUILT_IN_RULES
from jaxobs.cost_model.custom_calls.cublas import RULES as PRODUCTS
from jaxobs.cost_model.custom_calls.protocol import CustomCall
from jaxobs.cost_model.element_types.precision import executed_product
from jaxobs.cost_model.hlo.decode import decode
from jaxobs.cost_model.hlo.instructions import Instruction


def executed_types(serialized: bytes) -> frozenset[str]:
    """Element types, as JAX spells them, in which the products of an optimised ``HloModuleProto`` multiply.

    Products of integers count here although they are no FLOPs and in no cost. The types of custom calls without a
    rule are unknown and left out. Raises ``HloDecodeError``.
    """
    module = decode(serialized)
    return frozenset(
        name
        for computation in module.computations
        for instruction in computation.instructions
        for name in _types(instruction)
    )


def _types(instruction: Instruction) -> Iterator[str]:
    if instruction.opcode in MULTIPLY_ADDS:
        left, right = (instruction.operand(side).shape for side in (0, 1))
        if left.floating or right.floating:
            yield executed_product(instruction, left, right).type
        else:
            yield max(left.type, right.type, key=lambda type_: type_.bits).name
    elif instruction.opcode == "custom-call" and instruction.target in BUILT_IN_RULES:
        call = CustomCall(instruction)
        cost = BUILT_IN_RULES[instruction.target](call)
        if cost is not None and cost.executed_matrix_flops_by_type:
            yield from cost.executed_matrix_flops_by_type
        elif instruction.target in PRODUCTS and call.operands:
            yield call.operands[0].type.name
