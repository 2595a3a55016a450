"""When each value of a scheduled module is made and last used, as XLA's ``HloLiveRange`` has it.

Times are positions in the schedule, in which the computations that a loop, call or branch runs come before it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from jaxobs.cost_model.hlo.instructions import CONTROL, Computation, HloDecodeError, Instruction, Module

_SAME: Final = frozenset(("bitcast", "opt-barrier", "add-dependency"))
"""Opcodes whose result is their first operand, with the same shape or another."""

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

    def of(self, made: Iterable[Position]) -> tuple[int, int] | None:
        """From when until when values live that share one buffer, inclusive; None if they are not in the schedule."""
        waiting = list(made)
        begin = min(
            (self.times[instruction] for instruction, _ in waiting if instruction in self.times), default=None
        )
        if begin is None:
            return None
        end, seen = begin, set(waiting)
        while waiting:
            instruction, index = waiting.pop()
            end = max(end, self.times.get(instruction, end))
            for used, more in (*self._uses(instruction, index), *self._results(instruction, index)):
                end = max(end, used)
                for position in more:
                    if position not in seen:
                        seen.add(position)
                        waiting.append(position)
        return begin, end

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
                yield time, [(user, index), *((each, index) for each in _parameters(user.called, 0))]
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


def _parameters(called: Sequence[Computation], number: int) -> Iterator[Instruction]:
    for computation in called:
        for instruction in computation.instructions:
            if instruction.opcode == "parameter" and instruction.message.parameter_number == number:
                yield instruction
