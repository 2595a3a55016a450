"""Many steps at once, as columns: sums, counts and comparisons run in C, in a twentieth of the time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import add, ge, sub

from jaxobs.model.events import ROW_LENGTH, StepEnded, StepRows, steps_of_rows

MOST_ELSEWHERE = 0.02
"""Most time between steps, as a share of their whole time, that may be ignored: no figure is as exact as that."""

FEWEST = 4
"""Fewest steps that are folded together; fewer still are folded one by one."""


class NotPlainError(Exception):
    """Raised where steps have properties that columns do not hold: they have to be folded one by one."""


@dataclass(frozen=True)
class PlainSteps:
    """Consecutive steps of one loop on one thread, with no more to them than times, amounts and runs.

    Times are monotonic nanoseconds; lists have one entry per step, in order.
    """

    rows: StepRows

    @property
    def loop(self) -> str:
        return str(self.rows[0])

    @property
    def thread(self) -> int:
        return int(self.rows[9])

    @property
    def first(self) -> int:
        """The number of the first step."""
        return int(self.rows[1])

    @property
    def last(self) -> int:
        """The number of the last step."""
        return int(self.rows[1 - ROW_LENGTH])

    def __len__(self) -> int:
        return len(self.rows) // ROW_LENGTH

    @cached_property
    def starts(self) -> list[int]:
        return self.rows[2::ROW_LENGTH]

    @cached_property
    def ends(self) -> list[int]:
        return self.rows[3::ROW_LENGTH]

    @cached_property
    def gaps(self) -> list[int]:
        return self.rows[4::ROW_LENGTH]

    @cached_property
    def waits(self) -> list[int]:
        """How long each step waited for input at its beginning, in nanoseconds."""
        return self.rows[5::ROW_LENGTH]

    @cached_property
    def lengths(self) -> list[int]:
        """How long each step took, from its start to its end, in nanoseconds."""
        return list(map(sub, self.ends, self.starts))

    @cached_property
    def bodies(self) -> list[int]:
        """How long each step took, from the end of its wait for input to its end, in nanoseconds."""
        return list(map(sub, self.lengths, self.waits))

    @cached_property
    def turns(self) -> list[int]:
        """How long each step took with the gap before it, in nanoseconds."""
        return list(map(add, self.gaps, self.lengths)) if any(self.gaps) else self.lengths

    @cached_property
    def runs(self) -> Counter[int]:
        """How often each executable ran, or watched function whose executable is not visible; by number."""
        counted: Counter[int] = Counter()
        ran = self.rows[10::ROW_LENGTH]
        same = ran.count(ran[0]) == len(ran)
        for each, times in ((ran[0], len(ran)),) if same else Counter(ran).items():
            for run in each if isinstance(each, tuple) else (each,) if each else ():
                counted[run] += times
        return counted

    @property
    def each_ran(self) -> tuple[int, ...] | None:
        """The runs of each step, in order; None where they are not the same for all steps."""
        ran = self.rows[10]
        if self.rows[10::ROW_LENGTH].count(ran) != len(self):
            return None
        return ran if isinstance(ran, tuple) else (ran,) if ran else ()

    def total(self, column: int) -> float | None:
        """The sum of a column of amounts: examples (7) or tokens (8). None where no step has any.

        Raises NotPlainError where some are absent, negative or not finite.
        """
        amounts = self.rows[column::ROW_LENGTH]
        first, count = amounts[0], len(amounts)
        if (same := amounts.count(first) == count) and first is None:
            return None
        if None in amounts or not min(amounts) >= 0:
            raise NotPlainError
        total = float(first) * count if same else math.fsum(amounts)
        if not math.isfinite(total):
            raise NotPlainError
        return total

    def is_sound(self) -> bool:
        """Whether no step has a negative part, and each begins no earlier than the one before it ended."""
        dispatches = self.rows[6::ROW_LENGTH]
        if min(self.waits) < 0 or min(dispatches) < 0 or min(self.bodies) < 0 or min(self.gaps) < 0:
            return False
        starts, ends = self.starts[1:], self.ends[:-1]
        if any(self.gaps):
            starts = list(map(sub, starts, self.gaps[1:]))
        return starts == ends or all(map(ge, starts, ends))

    def are_interrupted(self) -> bool:
        """Whether the host was outside the loop between steps for more than MOST_ELSEWHERE of their whole time."""
        whole = self.ends[-1] - self.starts[0] + self.gaps[0]
        return whole - sum(self.turns) > MOST_ELSEWHERE * whole

    def events(self) -> list[StepEnded]:
        """The steps as single events."""
        return list(steps_of_rows(self.rows))

    def event(self, step: int) -> StepEnded:
        """The step of that number, as a single event. It must be among these steps."""
        at = (step - self.first) * ROW_LENGTH
        return next(steps_of_rows(self.rows[at : at + ROW_LENGTH]))


def grouped(rows: StepRows) -> Iterator[PlainSteps]:
    """Split rows, in order, into groups that can be folded as columns. Raises ValueError where the last row is cut."""
    if len(rows) % ROW_LENGTH:
        raise ValueError(f"{len(rows)} values are no whole rows of {ROW_LENGTH}")
    if not rows:
        return
    count = len(rows) // ROW_LENGTH
    loops, steps, threads = rows[0::ROW_LENGTH], rows[1::ROW_LENGTH], rows[9::ROW_LENGTH]
    if loops.count(loops[0]) == threads.count(threads[0]) == count and _is_range(steps):
        yield PlainSteps(rows)
        return
    # A step number that does not follow the one before it begins a new group.
    keys = [
        (loop, thread, step - at)
        for at, (loop, thread, step) in enumerate(zip(loops, threads, steps, strict=True))
    ]
    begin = 0
    for _, same in groupby(keys):
        end = begin + sum(1 for _ in same)
        yield PlainSteps(rows[begin * ROW_LENGTH : end * ROW_LENGTH])
        begin = end


def _is_range(numbers: Sequence[int]) -> bool:
    return list(numbers) == list(range(numbers[0], numbers[0] + len(numbers)))
