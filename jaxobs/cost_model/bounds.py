"""Computes the least that each computation can cost, with loops, calls and conditionals."""

from __future__ import annotations

from jaxobs.cost_model.arithmetic.tally import Tally
from jaxobs.cost_model.hlo.decode import runs_of
from jaxobs.cost_model.hlo.instructions import Computation, Instruction
from jaxobs.model.cost import IN_FLOPS


class Bounds:
    """The least cost of whole computations, which must be added callees first.

    That of a conditional is that of the branch with the fewest FLOPs (then bytes), which says so where another one has
    less of the rest. A loop without a known trip count counts once.
    """

    def __init__(self) -> None:
        self.least: dict[Computation, Tally] = {}
        self.least_branch: dict[Instruction, Computation] = {}

    def add(self, computation: Computation, own: Tally, control: list[Instruction]) -> None:
        """Add a computation: ``own`` is the cost of its instructions without those in ``control``."""
        for instruction in control:
            if instruction.opcode == "while" and instruction.trip_count is None:
                own.add_reason(
                    f"how often loop {instruction.name} runs cannot be told from its module before run time; counted once"
                )
            if instruction.opcode == "conditional" and instruction.called:
                self._choose(instruction, own)
            for called, times in runs_of(instruction, self.least_branch):
                own.add(self.least[called], times)
        self.least[computation] = own

    def _choose(self, conditional: Instruction, least: Tally) -> None:
        branches = conditional.called
        chosen = min(branches, key=lambda branch: (self.least[branch].flops, self.least[branch].bytes))
        self.least_branch[conditional] = chosen
        for branch in branches:
            least.add_unmodelled(self.least[branch].unmodelled)
        found, others = self.least[chosen], [self.least[branch] for branch in branches]
        if any(found.freeze() != other.freeze() for other in others):
            rest = found.bytes, found.transcendentals
            less = any(each.bytes < rest[0] or each.transcendentals < rest[1] for each in others)
            least.add_reason(
                f"conditional {conditional.name} takes a branch that is known only at run time; counted as the least"
                + (f" {IN_FLOPS}" if less else "")
            )
