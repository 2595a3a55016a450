"""Computes the least that each computation can cost, with loops, calls and conditionals."""

from __future__ import annotations

from collections.abc import Iterable

from jaxobs.cost_model.hlo.decode import runs_of
from jaxobs.cost_model.hlo.instructions import CONTROL, Computation, Instruction
from jaxobs.model.cost import IN_FLOPS, Cost, sum_of


class Bounds:
    """The least cost of whole computations, which must be added callees first.

    That of a conditional is that of the branch with the fewest FLOPs (then bytes), which says so where another one has
    less of the rest. A loop without a known trip count counts once.
    """

    def __init__(self) -> None:
        self.least: dict[Computation, Cost] = {}
        self.least_branch: dict[Instruction, Computation] = {}

    def add(self, computation: Computation, own: Iterable[Cost]) -> None:
        """Add a computation: ``own`` are the costs of its instructions without those that run others on the device."""
        parts = [(cost, 1.0) for cost in own]
        for instruction in computation.instructions:
            if instruction.opcode not in CONTROL or instruction.runs_on_host:
                continue
            if instruction.opcode == "while" and instruction.trip_count is None:
                unknown = (
                    f"how often loop {instruction.name} runs cannot be told from its module before run time"
                )
                parts.append((Cost(inexact_reasons=(f"{unknown}; counted once",)), 1.0))
            if instruction.opcode == "conditional" and instruction.called:
                parts.append((self._choose(instruction), 1.0))
            parts += [
                (self.least[called], times) for called, times in runs_of(instruction, self.least_branch)
            ]
        self.least[computation] = sum_of(parts)

    def _choose(self, conditional: Instruction) -> Cost:
        """Choose the branch that counts. Returns why its cost is inexact, and what is unmodelled in any branch."""
        chosen = min(
            conditional.called, key=lambda branch: (self.least[branch].flops, self.least[branch].bytes)
        )
        self.least_branch[conditional] = chosen
        found, every = self.least[chosen], [self.least[branch] for branch in conditional.called]
        reasons = []
        if any(found != other for other in every):
            less = any(
                each.bytes < found.bytes or each.transcendentals < found.transcendentals for each in every
            )
            reasons.append(
                f"conditional {conditional.name} takes a branch that is known only at run time; counted as the least"
                + (f" {IN_FLOPS}" if less else "")
            )
        unmodelled = tuple(name for each in every for name in each.unmodelled)
        return Cost(inexact_reasons=tuple(reasons), unmodelled=unmodelled)
