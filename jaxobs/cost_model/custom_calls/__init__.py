"""Rules for the costs of custom calls: library routines and kernels that an HLO module only names."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from jaxobs.cost_model.custom_calls import attention, lapack, libraries
from jaxobs.cost_model.custom_calls.protocol import Rule

BUILT_IN_RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {**attention.RULES, **libraries.RULES, **lapack.RULES}
)
"""Rules by custom-call target."""
