"""Computes the least that each computation can cost, with loops, calls and conditionals."""

from __future__ import annotations

from jaxobs.cost_model.arithmetic.tally import Tally
from jaxobs.cost_model.hlo.instructions import Computation, Instruction


class Bounds:
    """The least cost of whole computations, which must be added callees first.

    That of a conditional is that of the branch with the fewest FLOPs (then bytes). A loop without a known trip count
    counts once.
    """

    def __init__(self) -> None:
        self.least: dict[Computation, Tally] = {}
        self.least_branch: dict[Instruction, Computation] = {}

    def add(self, computation: Computation, own: Tally, control: list[Instruction]) -> None:
        """Add a computation: ``own`` is the cost of its instructions without those in ``control``."""
        for instruction in control:
            if instruction.opcode == "while" and len(instruction.called) == 2:
                self._add_loop(instruction, own)
            elif instruction.opcode == "conditional" and instruction.called:
                self._add_conditional(instruction, own)
            else:
                for called in instruction.called[:1]:
                    own.add(self.least[called])
        self.least[computation] = own

    def _add_loop(self, loop: Instruction, least: Tally) -> None:
        trips = loop.trip_count
        if trips is None:
            least.add_reason(
                f"how often loop {loop.name} runs cannot be told from its module before run time; counted once"
            )
            trips = 1
        body, condition = loop.called
        least.add(self.least[body], trips)
        least.add(self.least[condition], trips + 1)

    def _add_conditional(self, conditional: Instruction, least: Tally) -> None:
        branches = conditional.called
        chosen = min(branches, key=lambda branch: (self.least[branch].flops, self.least[branch].bytes))
        self.least_branch[conditional] = chosen
        least.add(self.least[chosen])
        for branch in branches:
            least.add_unmodelled(self.least[branch].unmodelled)
        if any(not self.least[chosen].same_figures(self.least[branch]) for branch in branches):
            least.add_reason(
                f"conditional {conditional.name} takes a branch that is known only at run time; counted as the least"
            )
