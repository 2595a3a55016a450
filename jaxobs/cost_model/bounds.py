"""Computes the least and the most that each computation can cost, with loops, calls and conditionals."""

from __future__ import annotations

from jaxobs.cost_model.arithmetic.tally import Tally
from jaxobs.cost_model.hlo.instructions import Computation, Instruction


class Bounds:
    """The least and the most cost of whole computations, which must be added callees first.

    The least of a conditional is that of the branch with the fewest FLOPs (then bytes); its most takes the largest of
    each figure among the branches. A loop without a known trip count counts once in the least, and has no most.
    """

    def __init__(self) -> None:
        self.least: dict[Computation, Tally] = {}
        self.most: dict[Computation, Tally | None] = {}
        self.least_branch: dict[Instruction, Computation] = {}

    def add(self, computation: Computation, own: Tally, control: list[Instruction]) -> None:
        """Add a computation: ``own`` is the cost of its instructions without those in ``control``."""
        least, most = own, own
        if control:
            most = Tally()
            most.add(own)
        for instruction in control:
            if instruction.opcode == "while" and len(instruction.called) == 2:
                self._add_loop(instruction, least, most)
            elif instruction.opcode == "conditional" and instruction.called:
                self._add_conditional(instruction, least, most)
            else:
                for called in instruction.called[:1]:
                    self._add_times(called, 1, least, most)
        self.least[computation] = least
        bounded = all(self._bounded(instruction) for instruction in control)
        self.most[computation] = most if bounded else None

    def _bounded(self, instruction: Instruction) -> bool:
        if instruction.opcode == "while" and instruction.trip_count is None:
            return False
        return all(self.most[called] is not None for called in instruction.called)

    def _add_times(self, called: Computation, times: float, least: Tally, most: Tally) -> None:
        least.add(self.least[called], times)
        if (upper := self.most[called]) is not None:
            most.add(upper, times)

    def _add_loop(self, loop: Instruction, least: Tally, most: Tally) -> None:
        trips = loop.trip_count
        if trips is None:
            least.add_reason(
                f"how often loop {loop.name} runs cannot be told from its module before run time; counted once"
            )
            trips = 1
        body, condition = loop.called
        self._add_times(body, trips, least, most)
        self._add_times(condition, trips + 1, least, most)

    def _add_conditional(self, conditional: Instruction, least: Tally, most: Tally) -> None:
        branches = conditional.called
        chosen = min(branches, key=lambda branch: (self.least[branch].flops, self.least[branch].bytes))
        self.least_branch[conditional] = chosen
        least.add(self.least[chosen])
        dearest = Tally()
        for branch in branches:
            dearest.raise_to(self.most[branch] or self.least[branch])
            least.add_unmodelled(self.least[branch].unmodelled)
        most.add(dearest)
        if any(not self.least[chosen].same_figures(self.least[branch]) for branch in branches):
            least.add_reason(
                f"conditional {conditional.name} takes a branch that is known only at run time; counted as the least"
            )
