"""Counts the bytes that a fusion reads of each of its inputs and writes of its outputs.

A pass from the results back to the parameters finds how many elements of each value its users need: an elementwise user
as many as are needed of itself, a slice or gather those that it takes, a reduction its whole input. Elementwise users
need the same elements of a value, so the largest need counts; slices may take different ones, so theirs add up. A need
never exceeds the value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jaxobs.cost_model.custom_calls.workspaces import workspace_bytes, workspaces
from jaxobs.cost_model.hlo.instructions import Computation, Instruction
from jaxobs.cost_model.hlo.opcodes import ELEMENTWISE
from jaxobs.cost_model.traffic.buffers import combines, replaced_bytes

_FEW: Final = 16  # constants up to so many elements travel in the instructions themselves


class FusionTraffic:
    """Counts the traffic of fused computations, and remembers that of each in a module."""

    def __init__(self) -> None:
        self.known: dict[Computation, tuple[dict[int, float], float]] = {}

    def of(self, computation: Computation) -> tuple[dict[int, float], float]:
        """Bytes read by parameter number, and bytes written in all."""
        known = self.known.get(computation)
        if known is None:
            known = self.known[computation] = self._analyse(computation)
        return known

    def _analyse(self, computation: Computation) -> tuple[dict[int, float], float]:
        need = _Need(len(computation.instructions))
        written = _results(computation, need)
        read: dict[int, float] = {}
        for instruction in reversed(computation.instructions):
            needed = need.of(instruction)
            if needed <= 0:
                continue
            opcode = instruction.opcode
            if opcode == "parameter":
                number = instruction.message.parameter_number
                read[number] = needed * instruction.shape.element_bytes if instruction.shape.bytes else 0.0
            elif opcode == "constant":
                # A read that belongs to no parameter, so it is added to the bytes of the results.
                if instruction.shape.elements > _FEW:
                    written += needed * instruction.shape.element_bytes
            elif opcode == "fusion" and instruction.called:
                self._pass_into(instruction, needed, need)
            else:
                _pass_on(instruction, needed, need)
        return read, written

    def _pass_into(self, fusion: Instruction, needed: float, need: _Need) -> None:
        """Add the needs of a fusion inside this one, in proportion to the part of its results that is needed."""
        read, _ = self.of(fusion.called[0])
        share = min(1.0, needed / max(1, fusion.shape.elements))
        for number, operand in enumerate(fusion.operands):
            size = operand.shape.element_bytes
            elements = read.get(number, 0.0) / size * share if size else float(operand.shape.elements)
            if elements < operand.shape.elements:
                need.take(operand, elements)
            else:
                need.share(operand, elements)


class _Need:
    """The elements needed of each instruction: the most by one elementwise user, plus the sum over the others."""

    __slots__ = ("in_place", "shared", "taken")

    def __init__(self, instructions: int) -> None:
        self.shared = [0.0] * instructions
        self.taken = [0.0] * instructions
        self.in_place: set[Instruction] = set()

    def share(self, instruction: Instruction, elements: float) -> None:
        self.shared[instruction.position] = max(self.shared[instruction.position], elements)

    def take(self, instruction: Instruction, elements: float) -> None:
        self.taken[instruction.position] += elements

    def of(self, instruction: Instruction) -> float:
        position = instruction.position
        return min(float(instruction.shape.elements), self.shared[position] + self.taken[position])


def _results(computation: Computation, need: _Need) -> float:
    """Add the needs of the fusion's results. Returns the bytes that it writes."""
    written = 0.0
    waiting = [computation.root]
    while waiting:
        result = waiting.pop()
        if result.opcode == "tuple":
            waiting.extend(result.operands)
            continue
        if _is_workspace(result):
            continue
        updates = _updates_in_place(result)
        if updates:
            written += sum(replaced_bytes(update, _replacement(update)) for update in updates)
            need.in_place.update(updates)
        else:
            written += result.shape.bytes
            if result.opcode == "custom-call":
                written -= workspace_bytes(result)
        need.share(result, float(result.shape.elements) or 1.0)
    return written


def _is_workspace(result: Instruction) -> bool:
    """Whether a result is scratch memory of a library call inside the fusion."""
    while result.opcode == "bitcast" and result.operands:
        result = result.operands[0]
    if (
        result.opcode != "get-tuple-element"
        or not result.operands
        or result.operands[0].opcode != "custom-call"
    ):
        return False
    call = result.operands[0]
    index: int = result.message.tuple_index
    return index >= len(call.shape.leaves()) - workspaces(call)


def _replacement(update: Instruction) -> Instruction:
    return update.operand(1 if update.opcode == "dynamic-update-slice" else 2)


def _updates_in_place(result: Instruction) -> list[Instruction]:
    """The chain of updates from a result to the parameter whose buffer it takes over; empty if there is none.

    Where the parameter is still needed, the compiler copies it beforehand in a separate instruction.
    """
    found: list[Instruction] = []
    while True:
        opcode, operands = result.opcode, result.operands
        if opcode == "bitcast" and operands:
            result = operands[0]
        elif (opcode == "dynamic-update-slice" and len(operands) > 1) or (
            opcode == "scatter" and len(operands) == 3
        ):
            found.append(result)
            result = operands[0]
        else:
            return found if opcode == "parameter" else []


def _pass_on(instruction: Instruction, needed: float, need: _Need) -> None:
    """Add the needs of ``needed`` elements of ``instruction`` to its operands; the whole operands by default."""
    rule = _RULES.get(instruction.opcode)
    if rule is not None:
        rule(instruction, needed, need)
        return
    for operand in instruction.operands:
        need.share(operand, float(operand.shape.elements))


def _same(instruction: Instruction, needed: float, need: _Need) -> None:
    for operand in instruction.operands:
        need.share(operand, needed)


def _slice(instruction: Instruction, needed: float, need: _Need) -> None:
    need.take(instruction.operand(0), needed)
    for index in instruction.operands[1:]:
        need.share(index, float(index.shape.elements))


def _reduce(instruction: Instruction, needed: float, need: _Need) -> None:
    share = min(1.0, needed / max(1, instruction.shape.leaves()[0].elements))
    for operand in instruction.operands:
        need.share(operand, operand.shape.elements * share)


def _concatenate(instruction: Instruction, needed: float, need: _Need) -> None:
    share = needed / max(1, instruction.shape.elements)
    for operand in instruction.operands:
        need.take(operand, operand.shape.elements * share)


def _update(instruction: Instruction, needed: float, need: _Need) -> None:
    target, others = instruction.operand(0), instruction.operands[1:]
    if instruction not in need.in_place:
        need.share(target, needed)
    else:
        if target.opcode != "parameter":
            need.share(target, 1.0)  # an earlier update in the same buffer, or a renaming of it
        if instruction.opcode == "scatter" and combines(instruction):
            need.take(target, float(_replacement(instruction).shape.elements))
    for operand in others:
        need.share(operand, float(operand.shape.elements))


_RULES: Final[dict[str, Callable[[Instruction, float, _Need], None]]] = {
    **dict.fromkeys(ELEMENTWISE, _same),
    **dict.fromkeys(("bitcast", "reshape", "transpose", "reverse", "broadcast", "pad"), _same),
    **dict.fromkeys(("slice", "dynamic-slice", "gather"), _slice),
    **dict.fromkeys(("dynamic-update-slice", "scatter"), _update),
    "reduce": _reduce,
    "concatenate": _concatenate,
}
