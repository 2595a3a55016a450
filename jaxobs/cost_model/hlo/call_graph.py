"""The call graph of a module: the order of its computations, which ones run on their own, and how often."""

from __future__ import annotations

from jaxobs.cost_model.errors import HloDecodeError
from jaxobs.cost_model.hlo.instructions import Computation, Instruction, Module
from jaxobs.cost_model.hlo.opcodes import CONTROL


def callees_first(module: Module) -> list[Computation]:
    """The computations that the entry reaches, each after all that it calls.

    Raises ``HloDecodeError`` where one calls itself.
    """
    order: list[Computation] = []
    finished: set[Computation] = set()
    open_: set[Computation] = set()
    waiting: list[tuple[Computation, bool]] = [(module.entry, False)]
    while waiting:
        computation, left = waiting.pop()
        if left:
            open_.discard(computation)
            finished.add(computation)
            order.append(computation)
            continue
        if computation in finished:
            continue
        open_.add(computation)
        waiting.append((computation, True))
        for instruction in computation.instructions:
            for called in instruction.called:
                if called in open_:
                    raise HloDecodeError(f"computation {called.name!r} calls itself")
                if called not in finished:
                    waiting.append((called, False))
    return order


def scheduled(order: list[Computation], entry: Computation) -> set[Computation]:
    """The computations whose instructions run on their own: the entry, and those that loops, calls and branches run."""
    found = {entry}
    for computation in reversed(order):
        if computation in found:
            for instruction in computation.instructions:
                if instruction.opcode in CONTROL:
                    found.update(instruction.called)
    return found


def embedded(order: list[Computation], on_their_own: set[Computation]) -> set[Computation]:
    """The computations that run inside one instruction: fused ones, those applied by a reduction and the like."""
    found: set[Computation] = set()
    for computation in reversed(order):
        inside = computation in found
        if inside or computation in on_their_own:
            for instruction in computation.instructions:
                if instruction.called and (inside or instruction.opcode not in CONTROL):
                    found.update(instruction.called)
    return found


def executions(
    order: list[Computation], entry: Computation, least: dict[Instruction, Computation]
) -> dict[Computation, float]:
    """The number of times that each computation runs in one run of the module; of branches, only that in ``least``."""
    times: dict[Computation, float] = dict.fromkeys(order, 0.0)
    times[entry] = 1.0
    for computation in reversed(order):
        outer = times[computation]
        if not outer:
            continue
        for instruction in computation.instructions:
            called, opcode = instruction.called, instruction.opcode
            if not called or opcode not in CONTROL:
                continue
            if opcode == "while" and len(called) == 2:
                count = 1 if (known := instruction.trip_count) is None else known
                times[called[0]] += outer * count
                times[called[1]] += outer * (count + 1)
            elif opcode == "conditional":
                times[least[instruction]] += outer
            else:
                times[called[0]] += outer
    return times
