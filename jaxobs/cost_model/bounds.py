"""Computes the least that each computation can cost, with loops, calls and conditionals, and how often each runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jaxobs.cost_model.hlo.instructions import CONTROL, Computation, Instruction
from jaxobs.model.cost import IN_FLOPS, Cost, sum_of


class Bounds:
    """The least cost of whole computations, which must be added callees first.

    That of a conditional is that of the branch with the fewest FLOPs (then bytes), which says so where another one has
    less of the rest. A loop without a known trip count counts once.
    """

    def __init__(self) -> None:
        self.least: dict[Computation, Cost] = {}
        self._least_branch: dict[Instruction, Computation] = {}

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
            parts += [(self.least[called], times) for called, times in self._runs_of(instruction)]
        self.least[computation] = sum_of(parts)

    def _choose(self, conditional: Instruction) -> Cost:
        """Choose the branch that counts. Returns why its cost is inexact, and what is unmodelled in any branch."""
        chosen = min(
            conditional.called, key=lambda branch: (self.least[branch].flops, self.least[branch].bytes)
        )
        self._least_branch[conditional] = chosen
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

    def _runs_of(self, control: Instruction) -> list[tuple[Computation, int]]:
        """The computations that a loop, call or conditional runs, and how often: a loop of unknown trip count once."""
        called = control.called
        if control.opcode == "while" and len(called) == 2:
            trips = 1 if (known := control.trip_count) is None else known
            return [(called[0], trips), (called[1], trips + 1)]
        if control.opcode == "conditional" and called:
            return [(self._least_branch[control], 1)]
        return [(each, 1) for each in called[:1]]

    def executions(self, order: Sequence[Computation], entry: Computation) -> dict[Computation, float]:
        """The number of times that each computation runs in one run of the module; of branches, only the least.

        In ``order`` callees come first.
        """
        times: dict[Computation, float] = dict.fromkeys(order, 0.0)
        times[entry] = 1.0
        for computation in reversed(order):
            outer = times[computation]
            if not outer:
                continue
            for instruction in computation.instructions:
                if instruction.opcode in CONTROL:
                    for called, count in self._runs_of(instruction):
                        times[called] += outer * count
        return times
