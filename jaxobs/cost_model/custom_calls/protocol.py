"""The contract of rules for custom calls, open to others: entry-point group ``jaxobs.custom_calls``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from math import inf
from typing import Any, Final

from jaxobs.cost_model.arithmetic.products import matrix_amounts
from jaxobs.cost_model.hlo.instructions import Instruction, Shape
from jaxobs.cost_model.precision import FLOAT32_SOURCES
from jaxobs.model.cost import AMOUNTS_BY_NAME, ESTIMATED, Cost

RULED: Final = frozenset(["custom-call", "cholesky", "triangular-solve"])
"""Opcodes whose whole cost, with bytes, a rule gives: that of the target, or else of the opcode."""

_ATTRIBUTE: Final = re.compile(rb"(\w+) = (true|false|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\b")
_TRUTH: Final = {b"true": 1.0, b"false": 0.0}


class CustomCall:
    """What a rule may look at: shapes, configuration and attributes of one custom call, or of a RULED opcode."""

    def __init__(self, instruction: Instruction) -> None:
        self.instruction = instruction
        self.target: str = instruction.target or instruction.opcode
        self.operands: tuple[Shape, ...] = tuple(operand.shape for operand in instruction.operands)
        self.results: tuple[Shape, ...] = instruction.shape.leaves()
        """The arrays of the result, a tuple's in order; libraries append their workspace as the last."""

    @property
    def backend_config(self) -> bytes:
        return self.instruction.backend_config

    @cached_property
    def configuration(self) -> Mapping[str, Any]:
        """The backend configuration as JSON; empty where it is none."""
        try:
            value = json.loads(self.backend_config)
        except (ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}

    @cached_property
    def attributes(self) -> Mapping[str, float]:
        """Numbers and truth values among the call's MLIR attributes (``name = 3 : i64``), by name."""
        return {
            name.decode(): _TRUTH[value] if value in _TRUTH else float(value)
            for name, value in _ATTRIBUTE.findall(self.backend_config)
        }

    def matrix(
        self,
        flops: float,
        *,
        of: Shape | None = None,
        executed: str | None = None,
        precision: str | None = None,
        **rest: Any,
    ) -> Cost:
        """A cost of matrix FLOPs in the element type of ``of``, by default the first floating operand.

        ``executed`` is the real type it runs in, by default that type's parts; ``precision`` is that of float32
        products whose precision the program left to the device (`default`, `high`). ``rest`` are other fields of
        ``Cost``, where bytes default to ``memory_bytes()``.
        """
        shape = of or next((operand for operand in self.operands if operand.floating), self.results[0])
        type_ = shape.type
        left_to_device = precision if type_.name in FLOAT32_SOURCES else None
        amounts = matrix_amounts(
            type_.name, executed or type_.part, flops, self.instruction.rematerialized, left_to_device
        )
        return Cost(**{"bytes": self.memory_bytes(), **rest, **amounts})

    def movement(self) -> Cost:
        """A cost without FLOPs: operands are read and results written."""
        return Cost(bytes=self.memory_bytes())

    def memory_bytes(self) -> float:
        """Bytes of the operands, read once, and of all results but scratch memory of known libraries, written once."""
        distinct = {id(operand): operand for operand in self.instruction.operands}.values()
        return sum(part.shape.bytes for part in distinct) + written_bytes(self.instruction)


Rule = Callable[[CustomCall], Cost | None]
"""A function that returns the whole cost of one execution, bytes included, or None if it does not apply."""


# MLIR writes a quotation mark in a string as \\22.
_ESTIMATE: Final = re.compile(rb'\bcost_estimate_json = "([^"]*)"')


def estimated(call: CustomCall) -> Cost | None:
    """The cost by the estimate of a kernel's author, ``cost_estimate`` of ``pallas_call``; None if the call carries none.

    Kernels of TPUs have it in their JSON, those of Mosaic GPU among their attributes from JAX 0.12 on
    (``jax/experimental/mosaic/gpu/core.py``); Triton writes none. It does not say which FLOPs are matrix products: all
    count as such, in the type of the first floating operand.
    """
    configuration = call.configuration.get("custom_call_config", call.configuration)
    estimate = configuration.get("cost_estimate")
    if (written := _ESTIMATE.search(call.backend_config)) is not None:
        estimate = json.loads(written[1].replace(rb"\22", b'"'))
    if not isinstance(estimate, dict):
        return None
    moved = float(estimate.get("bytes_accessed", 0)) or call.memory_bytes()
    return call.matrix(
        float(estimate.get("flops", 0)),
        bytes=moved,
        transcendentals=float(estimate.get("transcendentals", 0)),
        exact=False,
        inexact_reasons=(f"{call.target} is {ESTIMATED}",),
    )


def cost_by_rule(call: CustomCall, rules: Mapping[str, Rule]) -> Cost:
    """The cost by the target's rule, else by its author's estimate.

    Without either, it has bytes alone, and the target's name is unmodelled. A rule that raises or returns no usable cost
    is treated as one that does not apply, with a reason: rules may come from anyone.
    """
    rule = rules.get(call.target, estimated)
    cost, reasons = None, []
    try:
        cost = _checked(rule(call))
        if cost is None and rule is not estimated:
            cost = _checked(estimated(call))
    except (Exception, SystemExit) as error:  # noqa: BLE001  # a rule may be anyone's; it must not cost the rest
        reasons.append(f"rule for custom call {call.target} raised {type(error).__name__}: {error}")
    rest = Cost(bytes=call.memory_bytes(), inexact_reasons=tuple(reasons), unmodelled=(call.target,))
    return rest if cost is None else cost


def _checked(cost: Any) -> Cost | None:
    """The cost, checked to be one that can be added up. Raises TypeError or ValueError where it is not."""
    if cost is None:
        return None
    if not isinstance(cost, Cost):
        raise TypeError(f"it returned a {type(cost).__name__}, not a Cost or None")
    amounts = [cost.transcendentals, cost.bytes]
    for name in AMOUNTS_BY_NAME:
        amounts += getattr(cost, name).values()
    wrong = next((amount for amount in amounts if not 0 <= amount < inf), None)
    if wrong is not None:
        raise ValueError(f"it returned a cost of {wrong}, which is no amount")
    return cost


_BYTES: Final = ("int8", "uint8")

# The number of arrays at the end of the result that are scratch, by how a target begins: openxla/xla,
# xla/service/gpu/cublas_cudnn.h, gpu_sort_rewriter.cc, block_scaling_rewriter.cc, triangular_solve_rewriter.cc, and
# xla/backends/gpu/transforms/estimate_cub_scan_scratch_size.cc. cuSOLVER has a workspace and a status.
_LAST: Final = {
    "__cublas$": 1, "__cub$": 1, "__cudnn$blockScaledDot": 1, "__cudnn$conv": 1, "__cudnn$fmha": 1,
    "__cusolver$cholesky": 2, "te_fused_attn_": 1, "xla.gpu.ext.cub_": 1,
}  # fmt: skip
SCRATCH: Final = "__nop"
"""Target of the call inside a fusion for cuDNN whose result is the fusion's scratch memory, and which runs nothing:
openxla/xla, xla/service/gpu/transforms/cudnn_fusion_compiler.cc, ``AddWorkspace``."""

_ONLY_OF_BYTES: Final = ("__cublas$", "__cub$")
"""Prefixes of targets that may lack scratch: it is there if the last array of the result is one of bytes."""


def workspaces(call: Instruction) -> int:
    """The number of a custom call's last results that are scratch memory; 0 for other instructions."""
    target = call.target
    last = next((last for start, last in _LAST.items() if target.startswith(start)), 0)
    results = call.shape.leaves()
    lacking = target.startswith(_ONLY_OF_BYTES) and results[-1].type.name not in _BYTES
    return 0 if lacking or len(results) <= last else last


def written_bytes(instruction: Instruction) -> float:
    """The bytes of an instruction's results without scratch memory."""
    results = instruction.shape.leaves()
    return sum((result.bytes for result in results[: len(results) - workspaces(instruction)]), 0.0)
