"""Where the values of a module come from, when each is made and last used, and what may take its place.

Times are positions in the schedule, as XLA's ``HloLiveRange`` has them; the computations that a loop, call or branch runs
come before it there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from jaxobs.cost_model.hlo.instructions import (
    CONTROL,
    Computation,
    HloDecodeError,
    Instruction,
    Module,
    backwards,
)

MOVES: Final = frozenset(("bitcast", "copy", "reshape", "transpose", "copy-start", "copy-done"))
"""Opcodes whose result holds their operand's values, in another place or order."""

_MAX_STEPS: Final = 100
"""Most instructions followed back to what made a value: fusions nest a few deep."""

_SAME: Final = frozenset(("bitcast", "opt-barrier", "add-dependency"))
"""Opcodes whose result is their first operand, with the same shape or another."""

_READS_AGAIN: Final = frozenset((
    "concatenate", "convolution", "custom-call", "dot", "fft", "gather", "pad", "reduce", "reduce-window", "reverse",
    "slice", "sort", "transpose",
))  # fmt: skip
"""Opcodes that read parts of an operand again, or in another order, after they began to write."""

Position = tuple[Instruction, tuple[int, ...]]
"""An instruction, and the part of its result."""


class LiveRanges:
    """The live ranges of a module's values. Raises HloDecodeError where the module has no schedule."""

    def __init__(self, module: Module) -> None:
        by_id = {each.message.id: each for each in module.computations}
        self._sequences: dict[Computation, Sequence[int]] = {
            by_id[entry.key]: entry.value.instruction_ids
            for entry in module.message.schedule.sequences
            if entry.key in by_id
        }
        if module.entry not in self._sequences:
            raise HloDecodeError("the module has no schedule")
        self.times: dict[Instruction, int] = {}
        self._users: defaultdict[Instruction, list[Instruction]] = defaultdict(list)
        self._place(module.entry)

    def _place(self, computation: Computation) -> None:
        """Give times to the instructions of a computation, and of those that it runs."""
        by_id = {each.message.id: each for each in computation.instructions}
        for number in self._sequences.get(computation, ()):
            instruction = by_id.get(number)
            if instruction is None or instruction in self.times:
                continue
            if instruction.opcode in CONTROL:
                for called in reversed(instruction.called):  # a loop's condition comes before its body
                    self._place(called)
            for operand in instruction.operands:
                self._users[operand].append(instruction)
            self.times[instruction] = len(self.times)

    def of(self, made: Iterable[Position]) -> list[tuple[int, int]]:
        """From when until when values live that share one buffer, inclusive; empty if they are not in the schedule.

        Between two of them the buffer is free: once a turn of a loop has used what the one before left, until it makes
        what it leaves itself.
        """
        found, seen = list[tuple[int, int]](), set[Position]()
        scheduled = (position for position in made if position[0] in self.times)
        for position in sorted(scheduled, key=lambda position: self.times[position[0]]):
            if position in seen:  # it is where an earlier one was handed to
                continue
            begin, end = self.times[position[0]], self._end(position, seen)
            if found and begin <= found[-1][1]:
                begin, before = found.pop()
                end = max(before, end)
            found.append((begin, end))
        return found

    def _end(self, made: Position, seen: set[Position]) -> int:
        """When a value is last used; what it is handed on as is added to `seen`."""
        end, waiting = self.times[made[0]], [made]
        while waiting:
            instruction, index = waiting.pop()
            end = max(end, self.times.get(instruction, end))
            for used, more in (*self._uses(instruction, index), *self._results(instruction, index)):
                end = max(end, used)
                new = set(more) - seen
                seen |= new
                waiting += new
        return end

    def follows_uses(self, output: Instruction, argument: Instruction) -> bool:
        """Whether an output depends on all uses of an argument, _MAX_STEPS back: else a donated one is copied."""
        return set(islice(backwards(output), _MAX_STEPS)).issuperset(self._users[argument])

    def used_but_in_loops(self, made: Position) -> bool:
        """Whether anything but a loop uses a value, or a copy of it, in the computation that makes it."""
        waiting = [made]
        while waiting:
            instruction, index = waiting.pop()
            for user in self._users[instruction]:
                if user.opcode == "get-tuple-element":
                    waiting += [(user, index[1:])] if index[:1] == (user.message.tuple_index,) else []
                elif user.opcode in MOVES:
                    waiting.append((user, index))
                elif user.opcode not in ("tuple", "while"):
                    return True
        return False

    def _uses(self, instruction: Instruction, index: tuple[int, ...]) -> Iterator[tuple[int, list[Position]]]:
        """When users of a value use it, and where they hand it on unchanged."""
        for user in self._users[instruction]:
            opcode, time = user.opcode, self.times[user]
            if opcode == "get-tuple-element":
                if index[:1] == (user.message.tuple_index,):
                    yield 0, [(user, index[1:])]  # no access to the value itself
                continue
            places = [at for at, operand in enumerate(user.operands) if operand is instruction]
            if opcode == "tuple":
                yield 0, [(user, (at, *index)) for at in places]
            elif opcode in _SAME:
                yield (0, [(user, index)]) if 0 in places else (time, [])
            elif opcode == "while":
                # What follows the loop uses what its body leaves.
                yield 0, [(each, index) for each in _parameters(user.called, 0)]
            elif opcode in ("call", "async-start"):
                inside = (each for at in places for each in _parameters(user.called[:1], at))
                yield self._done(user), [(each, index) for each in inside]
            elif opcode == "conditional":
                branches = (user.called[at - 1 : at] for at in places if at)
                yield time, [(each, index) for branch in branches for each in _parameters(branch, 0)]
            else:
                yield self._done(user), []

    def _results(
        self, instruction: Instruction, index: tuple[int, ...]
    ) -> Iterator[tuple[int, list[Position]]]:
        """Where a value goes that its computation returns."""
        if instruction is not instruction.computation.root:
            return
        for caller in instruction.computation.callers:
            time = self.times.get(caller)
            if time is None or caller.opcode not in CONTROL:
                continue
            if caller.opcode == "while" and instruction.computation is not caller.called[0]:
                continue  # a condition's, which is used at once
            yield time, [(caller, (1, *index) if caller.opcode == "async-start" else index)]

    def _done(self, user: Instruction) -> int:
        """When an operation is over: one that is only started, at its end."""
        if not user.opcode.endswith(("-start", "-update")):
            return self.times[user]
        return max((self._done(each) for each in self._users[user]), default=self.times[user])


def may_overwrite(instruction: Instruction, read: Collection[Instruction]) -> bool:
    """Whether an operation may write its result over what it has read, of which it reads no part again."""
    read = {each for each in instruction.operands if each in read or defined_at(each)[0] in read}
    if not instruction.called or instruction.opcode in _READS_AGAIN:
        return not read or instruction.opcode not in _READS_AGAIN
    computation = instruction.called[0]
    handed_on = (at for at, one in enumerate(instruction.operands) if one in read)
    inside = {each for at in handed_on for each in _parameters([computation], at)}
    for each in computation.instructions:  # operands come before their users
        if not inside.isdisjoint(each.operands):
            if not may_overwrite(each, inside):
                return False
            inside.add(each)
    return True


def _parameters(called: Sequence[Computation], number: int) -> list[Instruction]:
    return [each.parameters[number] for each in called if number in each.parameters]


def defined_at(instruction: Instruction) -> Position:
    """Where a value is made that is handed on unchanged."""
    index: tuple[int, ...] = ()
    while instruction.operands:
        operand = instruction.operands[0]
        if instruction.opcode == "get-tuple-element":
            index = (instruction.message.tuple_index, *index)
        elif instruction.opcode == "tuple" and index and 0 <= index[0] < len(instruction.operands):
            operand, index = instruction.operands[index[0]], index[1:]
        elif instruction.opcode not in _SAME:
            break
        instruction = operand
    return instruction, index


def maker_of(instruction: Instruction, index: Sequence[int]) -> tuple[Instruction, bool]:
    """The instruction that made a value, and whether the value is written piece by piece into a larger one."""
    piecewise, within = False, []
    for _ in range(_MAX_STEPS):
        before = instruction
        if instruction.opcode in ("fusion", "call") and instruction.called:
            within.append(instruction)
            root = instruction.called[0].root
            inside = root.opcode == "tuple" and len(index) == 1 and index[0] < len(root.operands)
            instruction = root.operands[index[0]] if inside else root
        elif instruction.opcode == "parameter" and within:
            number = instruction.message.parameter_number
            fusion = within.pop()
            instruction = fusion.operands[number] if number < len(fusion.operands) else fusion
        elif instruction.opcode == "dynamic-update-slice" and len(instruction.operands) > 1:
            piecewise, instruction = True, instruction.operands[1]
        elif instruction.opcode in MOVES and instruction.operands:
            instruction = instruction.operands[0]
        index = ()
        if instruction is before:
            break
    return instruction, piecewise
