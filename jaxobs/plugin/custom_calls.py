"""Loads rules for the costs of custom calls: built-in ones, and those of the entry-point group `jaxobs.custom_calls`.

Such an entry point names a mapping from custom-call target to rule, a function of one
`jaxobs.cost_model.CustomCall` that returns its whole `jaxobs.cost_model.Cost`, or None if it does not apply.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jaxobs.cost_model import BUILT_IN_RULES, Rule
from jaxobs.plugin.discovery import CUSTOM_CALLS, discover


def load_rules(log: Callable[[str], None]) -> Mapping[str, Rule]:
    """All rules by their targets. Third parties' take precedence over built-in ones, so that anyone can fix one.

    Of several for one target the first by the name of the entry point counts. Failures to load are logged.
    """
    rules: dict[str, Rule] = {}
    for found in discover(CUSTOM_CALLS):
        if found.error:
            log(f"custom calls {found.name} of {found.distribution} could not be loaded: {found.error}")
        else:
            rules = {**found.plugin, **rules}
    return {**BUILT_IN_RULES, **rules}
