"""Counts the bytes that a schedulable instruction moves to and from device memory.

These are the bytes that it must move: each distinct operand is read once and each result written once. A slice or a
gather reads the elements that it takes, and an update in place reads and writes those that it replaces. Tuples,
bitcasts and the like only rename buffers. A constant counts where it is read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from math import inf, prod
from typing import Final

from jaxobs.cost_model.collectives import kind_of, memory_bytes
from jaxobs.cost_model.custom_calls.protocol import RULED, SCRATCH, workspaces, written_bytes
from jaxobs.cost_model.dataflow import Position, defined_at
from jaxobs.cost_model.hlo.instructions import CONTROL, ELEMENTWISE, FREE, Computation, Instruction


def combines(scatter: Instruction) -> bool:
    """Whether a scatter needs the old value, because its computation does more than return the update."""
    return not (scatter.called and scatter.called[0].root.opcode == "parameter")


def replaced_bytes(target: Instruction, update: Instruction) -> float:
    """Bytes of the target that an update replaces: no more than it has, however often a scatter meets one element."""
    return min(target.shape.bytes, update.shape.bytes)


# Counts the bytes that a fusion reads of each of its inputs and writes of its outputs.
#
# A pass from the results back to the parameters finds how many elements of each value its users need: an
# elementwise user as many as are needed of itself, a slice or gather those that it takes, a reduction its
# whole input. Elementwise users need the same elements of a value, so the largest need counts; slices may
# take different ones, so theirs add up, to no more than lie between the first and the last in each dimension.
# A need never exceeds the value.


_FEW: Final = 16  # constants up to so many elements travel in the instructions themselves
_AS_NEEDED: Final = ELEMENTWISE | {"fusion", "reduce"}


class FusionTraffic:
    """Counts the traffic of fused computations, and remembers that of each in a module."""

    def __init__(self) -> None:
        self.known: dict[Computation, tuple[dict[int, float], float, Need]] = {}

    def of(self, computation: Computation) -> tuple[dict[int, float], float, Need]:
        """Elements read by parameter number, bytes written in all, and what is needed of each instruction."""
        if computation not in self.known:
            self.known[computation] = self._analyse(computation)
        return self.known[computation]

    def _analyse(self, computation: Computation) -> tuple[dict[int, float], float, Need]:
        need = Need()
        written = _results(computation, need)
        read: dict[int, float] = {}
        for instruction in reversed(computation.instructions):
            needed = need.of(instruction)
            if needed <= 0:
                continue
            opcode = instruction.opcode
            if opcode == "parameter":
                read[instruction.message.parameter_number] = needed
            elif opcode == "constant":
                # A read that belongs to no parameter, so it is added to the bytes of the results.
                if instruction.shape.elements > _FEW:
                    written += needed * instruction.shape.element_bytes
            elif opcode == "fusion" and instruction.called:
                self._pass_into(instruction, needed, need)
            else:
                _NEEDS.get(opcode, _same)(instruction, needed if opcode in _NEEDS else inf, need)
        return read, written, need

    def _pass_into(self, fusion: Instruction, needed: float, need: Need) -> None:
        """Add the needs of a fusion inside this one, in proportion to the part of its results that is needed."""
        read, *_ = self.of(fusion.called[0])
        share = min(1.0, needed / max(1, fusion.shape.elements))
        for number, operand in enumerate(fusion.operands):
            elements = read.get(number, 0.0) * share
            if elements < operand.shape.elements:
                need.take(operand, elements, [])
            else:
                need.share(operand, elements)


class Need:
    """The elements needed of each instruction: the most by one elementwise user, plus the sum over the others."""

    __slots__ = ("around", "in_place", "shared", "taken")

    def __init__(self) -> None:
        self.shared: defaultdict[Instruction, float] = defaultdict(float)
        self.taken: defaultdict[Instruction, float] = defaultdict(float)
        self.around: dict[Instruction, list[tuple[int, int]]] = {}
        """Start and limit, by dimension, of all parts taken; empty where one is not known."""
        self.in_place: set[Instruction] = set()

    def share(self, instruction: Instruction, elements: float) -> None:
        self.shared[instruction] = max(self.shared[instruction], elements)

    def take(self, instruction: Instruction, elements: float, part: list[tuple[int, int]]) -> None:
        self.taken[instruction] += elements
        both = zip(self.around.get(instruction, part), part, strict=False)
        self.around[instruction] = [(min(one[0], two[0]), max(one[1], two[1])) for one, two in both]

    def of(self, instruction: Instruction) -> float:
        around = self.around.get(instruction) or [(0, instruction.shape.elements)]
        taken = min(self.taken[instruction], prod(limit - start for start, limit in around))
        return min(float(instruction.shape.elements), self.shared[instruction] + taken)

    def part(self, instruction: Instruction) -> float:
        """The part of a result that is computed: in a fusion, of elementwise work and sums no more than is needed."""
        if instruction.opcode not in _AS_NEEDED:
            return 1.0
        return self.of(instruction) / max(1, instruction.shape.elements)


def _results(computation: Computation, need: Need) -> float:
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
            written += written_bytes(result)
        need.share(result, float(result.shape.elements) or 1.0)
    return written


def _is_workspace(result: Instruction) -> bool:
    """Whether a result is scratch memory of the fusion, or of a library call inside it."""
    call, index = defined_at(result)
    if call.opcode != "custom-call":
        return False
    return call.target == SCRATCH or index >= (len(call.shape.leaves()) - workspaces(call),)


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


def _same(instruction: Instruction, needed: float, need: Need) -> None:
    for operand in instruction.operands:
        need.share(operand, needed)


def _need_slice(instruction: Instruction, needed: float, need: Need) -> None:
    part = [(each.start, each.limit) for each in instruction.message.slice_dimensions]
    need.take(instruction.operand(0), needed, part)
    for index in instruction.operands[1:]:
        need.share(index, inf)


def _reduce(instruction: Instruction, needed: float, need: Need) -> None:
    share = min(1.0, needed / max(1, instruction.shape.leaves()[0].elements))
    for operand in instruction.operands:
        need.share(operand, operand.shape.elements * share)


def _concatenate(instruction: Instruction, needed: float, need: Need) -> None:
    share = needed / max(1, instruction.shape.elements)
    for operand in instruction.operands:
        need.take(operand, operand.shape.elements * share, [])


def _update(instruction: Instruction, needed: float, need: Need) -> None:
    target, others = instruction.operand(0), instruction.operands[1:]
    if instruction not in need.in_place:
        # A slice is written instead of what it replaces; updates of a scatter may be dropped, or meet one place.
        kept = needed - (instruction.opcode != "scatter") * _replacement(instruction).shape.elements
        need.share(target, kept)
    else:
        if target.opcode != "parameter":
            need.share(target, 1.0)  # an earlier update in the same buffer, or a renaming of it
        if instruction.opcode == "scatter" and combines(instruction):
            need.take(target, float(_replacement(instruction).shape.elements), [])
    for operand in others:
        need.share(operand, inf)


_NEEDS: Final[dict[str, Callable[[Instruction, float, Need], None]]] = {
    **dict.fromkeys(ELEMENTWISE, _same),
    **dict.fromkeys(("bitcast", "reshape", "transpose", "reverse", "broadcast", "pad"), _same),
    **dict.fromkeys(("slice", "dynamic-slice", "gather"), _need_slice),
    **dict.fromkeys(("dynamic-update-slice", "scatter"), _update),
    "reduce": _reduce,
    "concatenate": _concatenate,
}
"""By opcode, what adds the needs of some elements of a result to its operands; for all others these are needed whole."""

_ELSEWHERE: Final = FREE | CONTROL | RULED


def traffic(instruction: Instruction, fusions: FusionTraffic) -> float:
    """Bytes read and written in device memory by one execution; 0 for opcodes that are counted elsewhere."""
    opcode = instruction.opcode
    if opcode == "fusion" and instruction.called:
        return _fusion(instruction, fusions)
    if opcode in _ELSEWHERE:
        return 0.0
    if (rule := _RULES.get(opcode)) is not None:
        return rule(instruction)
    if kind_of(opcode) is not None:
        return memory_bytes(instruction)
    return _read(instruction.operands) + instruction.shape.bytes


def _read(operands: tuple[Instruction, ...]) -> float:
    return float(sum({defined_at(operand): operand.shape.bytes for operand in operands}.values()))


def _fusion(instruction: Instruction, fusions: FusionTraffic) -> float:
    read, written, _ = fusions.of(instruction.called[0])
    total: dict[Position, float] = {}
    for number, operand in enumerate(instruction.operands):
        buffer = defined_at(operand)
        needed = total.get(buffer, 0.0) + read.get(number, 0.0) * operand.shape.element_bytes
        total[buffer] = min(operand.shape.bytes, needed)
    return sum(total.values()) + written


def _slice(instruction: Instruction) -> float:
    """Bytes of the elements read, which a gather may take many times, of the result written, and of the indices."""
    taken = min(instruction.operand(0).shape.bytes, instruction.shape.bytes)
    return taken + instruction.shape.bytes + _read(instruction.operands[1:])


def _scatter(instruction: Instruction) -> float:
    """Bytes of indices and updates read, and of the elements written, which are read too if they are combined."""
    arrays = (len(instruction.operands) - 1) // 2
    targets, updates = instruction.operands[:arrays], instruction.operands[arrays + 1 :]
    written = sum(map(replaced_bytes, targets, updates)) * (2 if combines(instruction) else 1)
    return instruction.operand(arrays).shape.bytes + sum(update.shape.bytes for update in updates) + written


_RULES: Final[dict[str, Callable[[Instruction], float]]] = {
    "slice": _slice,
    "dynamic-slice": _slice,
    "gather": _slice,
    "dynamic-update-slice": lambda it: replaced_bytes(it.operand(0), it.operand(1)) + _read(it.operands[1:]),
    "scatter": _scatter,
    # The result lists destination, source and a context. Host memory does not count.
    "copy-start": lambda one: one.operand(0).shape.bytes + one.shape.leaves()[0].bytes,
}
