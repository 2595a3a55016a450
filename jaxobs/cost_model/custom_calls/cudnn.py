"""Rules for convolutions in cuDNN, and in MIOpen under the same names.

Window and dimension numbers are those of the forward convolution, whichever of its three arrays the call
computes (openxla/xla, ``xla/service/gpu/cublas_cudnn.h``); its multiply-adds are the same for all three. The
result is a tuple that ends with the workspace.
"""

from __future__ import annotations

from typing import Final

from jaxobs.cost_model.arithmetic.convolution import convolution_multiply_adds
from jaxobs.cost_model.arithmetic.dot import multiply_add_flops
from jaxobs.cost_model.custom_calls.protocol import CustomCall, Rule
from jaxobs.cost_model.element_types.precision import executed_by_cudnn
from jaxobs.cost_model.hlo.shapes import Shape
from jaxobs.model.cost import Cost


def _convolution(call: CustomCall, input_: Shape, kernel: Shape, output: Shape, additions: int = 0) -> Cost:
    multiply_adds = convolution_multiply_adds(input_, kernel, output, call.instruction.message)
    flops = multiply_add_flops(*call.operands[:2]) * multiply_adds
    vector = float(additions * call.results[0].elements)
    part = call.results[0].type.part
    floating = next((operand for operand in call.operands if operand.floating), call.results[0])
    executed = executed_by_cudnn(call.instruction, floating.type.part)
    return call.matrix(
        flops,
        of=floating,
        precision=executed.precision,
        bytes=call.memory_bytes(workspaces=call.workspaces),
        vector_flops_by_type={part: vector} if vector else {},
    )


def forward(call: CustomCall) -> Cost:
    """The cost of a forward convolution. Operands: input, kernel."""
    return _convolution(call, call.operands[0], call.operands[1], call.results[0])


def with_bias(call: CustomCall) -> Cost:
    """The cost with additions. Operands: input, kernel, bias, and perhaps a side input; the last two are added."""
    return _convolution(call, call.operands[0], call.operands[1], call.results[0], len(call.operands) - 2)


def backward_input(call: CustomCall) -> Cost:
    """The cost of the input's gradient. Operands: the output's gradient, kernel."""
    return _convolution(call, call.results[0], call.operands[1], call.operands[0])


def backward_kernel(call: CustomCall) -> Cost:
    """The cost of the kernel's gradient. Operands: input, the output's gradient."""
    return _convolution(call, call.operands[0], call.results[0], call.operands[1])


RULES: Final[dict[str, Rule]] = {
    "__cudnn$convForward": forward,
    "__cudnn$convForwardGraph": forward,
    "__cudnn$convBiasActivationForward": with_bias,
    "__cudnn$convBackwardInput": backward_input,
    "__cudnn$convBackwardFilter": backward_kernel,
}
