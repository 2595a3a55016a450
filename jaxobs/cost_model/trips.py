"""Infers how often a loop runs where the compiler has not noted it: XLA for TPUs writes no ``known_trip_count``.

A counter is an element of the loop's state to which the body adds a constant. Where the condition compares a counter with
a constant, with an element that stays the same, or with another counter, its first value, step and bound give the number
of turns, as in openxla/xla, ``xla/hlo/analysis/while_loop_analysis.cc``, ``MatchTrivialLoopTripCount``; here steps of
either sign and all comparisons are understood. Any other condition depends on data: its loop stays unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from jaxobs.cost_model.hlo.instructions import Computation, Instruction, instructions_of
from jaxobs.proto.element_types import ElementType, Kind
from jaxobs.proto.messages import LiteralMessage

_MAX_WALK: Final = 64
_RENAMING: Final = frozenset(("bitcast", "copy", "copy-done", "copy-start", "opt-barrier", "reshape"))
_BODIES: Final = ("call", "fusion")
_OPERATIONS: Final = ("add", "multiply", "subtract")
_MIRRORED: Final = {b"GT": b"LT", b"GE": b"LE"}


class _Value(NamedTuple):
    """What an instruction gives, or one element of it."""

    made_by: Instruction
    element: int | None = None
    """The index in the tuple that it gives; None for all that it gives."""
    inside: tuple[Instruction, ...] = ()
    """Fusions and calls that were entered on the way to the instruction: it is in the last one's computation."""


class _Linear(NamedTuple):
    """An element of a loop's state times a factor plus a constant; the constant alone if ``element`` is None."""

    element: int | None
    factor: int
    constant: int


def inferred_trips(computations: Iterable[Computation]) -> dict[Instruction, int]:
    """The number of turns of each loop for which the compiler has noted none, where it can be inferred."""
    loops = (each for each in instructions_of(computations) if each.opcode == "while")
    unknown = (loop for loop in loops if len(loop.called) == 2 and loop.trip_count is None)
    return {loop: trips for loop in unknown if (trips := _trips(loop)) is not None}


def _trips(loop: Instruction) -> int | None:
    compare, _, inside = _origin(_Value(loop.called[1].root), loop)
    if compare.opcode != "compare" or len(compare.operands) != 2:
        return None
    left, right = (_progress(_Value(operand, None, inside), loop) for operand in compare.operands)
    if left is None or right is None:
        return None
    step = left[1] - right[1]
    trips = first_failure(compare.message.comparison_direction, left[0] - right[0], step)
    if trips is None:
        return None
    ends = (first + pace * turn for first, pace in (left, right) for turn in (0, trips))
    return trips if all(_holds(compare.operands[0].shape.type, end) for end in ends) else None


def first_failure(direction: bytes, gap: int, step: int) -> int | None:
    """The least k ≥ 0 for which ``gap + k * step`` compared with 0 is false; None if it never is, or only by overflow.

    ``direction`` is that of an HLO comparison: LT, LE, GT, GE, EQ or NE.
    """
    if direction in _MIRRORED:
        direction, gap, step = _MIRRORED[direction], -gap, -step
    if direction == b"LE":
        direction, gap = b"LT", gap - 1
    if direction == b"LT":
        return 0 if gap >= 0 else -(gap // step) if step > 0 else None
    if direction == b"EQ":
        return 0 if gap else 1 if step else None
    if direction != b"NE" or not gap:
        return None if gap else 0
    return -gap // step if step and gap % step == 0 and (gap < 0) == (step > 0) else None


def _progress(value: _Value, loop: Instruction) -> tuple[int, int] | None:
    """The first value and the step of a scalar in a loop's condition; None if it is no counter and not constant."""
    found = _linear(value, loop)
    if found is None or found.element is None:
        return None if found is None else (found.constant, 0)
    first, step = _linear(_Value(loop.operand(0), found.element), loop), _step(loop, found.element)
    if first is None or first.element is not None or step is None:
        return None
    return found.factor * first.constant + found.constant, found.factor * step


def _step(loop: Instruction, element: int) -> int | None:
    """What a turn of the loop adds to an element of its state: 0 where that stays the same; None if it is no constant."""
    changed = _linear(_Value(loop.called[0].root, element), loop)
    return changed.constant if changed is not None and changed[:2] == (element, 1) else None


def _linear(value: _Value, loop: Instruction) -> _Linear | None:
    """A value as a linear function of an element of the loop's state; None if it is no such function."""
    factor, constant = 1, 0
    for _ in range(_MAX_WALK):
        value = _origin(value, loop)
        instruction = value.made_by
        if instruction.opcode == "parameter" and instruction.computation in loop.called:
            return None if value.element is None else _Linear(value.element, factor, constant)
        if (literal := _literal(instruction)) is not None:
            return _Linear(None, 0, constant + factor * literal)
        if instruction.opcode not in _OPERATIONS or len(instruction.operands) != 2:
            return None
        left, right = (_Value(operand, None, value.inside) for operand in instruction.operands)
        known, value = _literal(_origin(right, loop).made_by), left
        if known is None:
            known, value = _literal(_origin(left, loop).made_by), right
            if known is None:
                return None
            if instruction.opcode == "subtract":
                factor = -factor
        if instruction.opcode == "multiply":
            factor *= known
        else:
            constant += factor * (known if instruction.opcode == "add" else -known)
    return None


def _origin(value: _Value, loop: Instruction) -> _Value:
    """The value that this one is a copy of: through tuples, fusions, calls, and states of other loops that do not change.

    It ends at the parameter of the loop's own body or condition, or at the instruction that computes the value.
    """
    instruction, element, inside = value
    for _ in range(_MAX_WALK):
        opcode, operands = instruction.opcode, instruction.operands
        if opcode == "get-tuple-element" and element is None and operands:
            instruction, element = operands[0], instruction.message.tuple_index
        elif opcode == "tuple" and element is not None:
            instruction, element = instruction.operand(element), None
        elif opcode in _RENAMING and operands:
            instruction = operands[0]
        elif opcode in _BODIES and instruction.called:
            instruction, inside = instruction.called[0].root, (*inside, instruction)
        else:
            passed = _passed(_Value(instruction, element, inside), loop)
            if passed is None:
                break
            instruction, inside = passed
    return _Value(instruction, element, inside)


def _passed(value: _Value, loop: Instruction) -> tuple[Instruction, tuple[Instruction, ...]] | None:
    """What a caller passes for a parameter, or a loop leaves as it was: the instruction, and what it is inside of."""
    caller, _, inside = value
    number = 0
    if caller.opcode == "parameter" and caller.computation not in loop.called:
        number, callers = caller.message.parameter_number, caller.computation.callers
        if not inside and len(callers) != 1:
            return None
        caller, inside = (inside[-1], inside[:-1]) if inside else (callers[0], ())
        if caller.opcode in _BODIES:
            return caller.operand(number), inside
    if caller.opcode != "while" or len(caller.called) != 2 or value.element is None:
        return None
    return (caller.operand(number), inside) if _step(caller, value.element) == 0 else None


def _literal(constant: Instruction) -> int | None:
    """The value of an integer constant of one element; None for all else."""
    shape = constant.shape
    if constant.opcode != "constant" or shape.elements != 1 or shape.type.kind is not Kind.INTEGER:
        return None
    literal = LiteralMessage.FromString(constant.message.literal)
    values = (*literal.s32s, *literal.s64s, *literal.u32s, *literal.u64s)
    return int(values[0]) if len(values) == 1 else None


def _holds(type_: ElementType, value: int) -> bool:
    """Whether an integer type holds the value: beyond its range a counter would start again at the other end."""
    lowest = 0 if type_.name.startswith("uint") else -(1 << (type_.bits - 1))
    return lowest <= value < lowest + (1 << type_.bits)
