"""Computes the cost of a compiled module on one device: FLOPs, bytes and collective bytes from its HLO.

Pure functions from bytes to plain data, which import neither JAX nor XLA.
"""

from jaxobs.cost_model.custom_calls import BUILT_IN_RULES
from jaxobs.cost_model.custom_calls.protocol import CustomCall, Rule
from jaxobs.cost_model.hlo.instructions import HloDecodeError
from jaxobs.cost_model.module import cost_or_reason, module_cost
from jaxobs.model.cost import Cost

__all__ = ["BUILT_IN_RULES", "Cost", "CustomCall", "HloDecodeError", "Rule", "cost_or_reason", "module_cost"]
