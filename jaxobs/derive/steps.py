"""Steps of one loop as columns, one or many at once: sums, counts and comparisons of many run in C."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import add, ge, sub

from jaxobs.model.events import ROW_LENGTH, SpanContext, StepEnded, StepRows, steps_of_rows

MAX_ELSEWHERE = 0.02
"""Largest share of the time of many steps that may lie between them and be ignored: no figure is as exact as that."""


@dataclass(frozen=True)
class Steps:
    """Consecutive steps of one loop on one thread. Times are monotonic nanoseconds; lists have one entry per step.

    Many steps have no more to them than times, amounts and runs; the other fields are those of a single step.
    """

    rows: StepRows
    nested: int = 0
    checkpoint: int = 0
    failed: bool = False
    parent: SpanContext | None = None
    compiling: int = 0
    """Nanoseconds of its turn in compiles on its thread, and those of its wait for input."""
    compiling_in_wait: int = 0

    @classmethod
    def of(cls, event: StepEnded) -> Steps:
        """A single step."""
        row = [*event[:7], *event[9:11], event.thread, event.runs]  # as columns hold it
        return cls(row, event.nested, event.checkpoint, event.failed, event.parent)

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

    @property
    def begin(self) -> int:
        """When the first turn began, which includes the gap before its step."""
        return int(self.rows[2] - self.rows[4])

    @property
    def end(self) -> int:
        """When the host ended the last step."""
        return int(self.rows[3 - ROW_LENGTH])

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
    def turns(self) -> list[int]:
        """How long each step took with the gap before it and without what is nested in it, in nanoseconds."""
        if self.nested:
            return [self.gaps[0] + self.lengths[0] - self.nested]
        return list(map(add, self.gaps, self.lengths)) if any(self.gaps) else self.lengths

    @property
    def input_wait(self) -> int:
        """Nanoseconds of all waits for input, without compiles in them."""
        return max(0, sum(self.waits) - self.compiling_in_wait)

    @property
    def ran(self) -> list[object]:
        """What each step ran: executables by number, or watched functions whose executable is not visible."""
        return self.rows[10::ROW_LENGTH]

    @cached_property
    def runs(self) -> Counter[int]:
        """How often each executable or watched function ran; by number."""
        counted: Counter[int] = Counter()
        for ran, steps in self._alike.items():
            for run in ran:
                counted[run] += steps
        return counted

    @cached_property
    def _alike(self) -> dict[tuple[int, ...], int]:
        """How many steps ran what, by all that each of them ran."""
        ran = self.ran
        alike = {ran[0]: len(ran)} if ran.count(ran[0]) == len(ran) else Counter(ran)
        return {_tuple(each): steps for each, steps in alike.items()}

    @property
    def each_ran(self) -> tuple[int, ...] | None:
        """What each of the steps ran, in order; None where that is not the same for all."""
        return next(iter(self._alike)) if len(self._alike) == 1 else None

    def nanoseconds_with(self) -> dict[int, int]:
        """Nanoseconds of the turns in which each executable or watched function ran, by number."""
        if self.each_ran is not None:
            return dict.fromkeys(self.each_ran, sum(self.turns))
        found: Counter[int] = Counter()
        for ran, turn in zip(self.ran, self.turns, strict=True):
            for run in set(_tuple(ran)):
                found[run] += turn
        return found

    def total(self, column: int) -> float | None:
        """The sum of a column of amounts: examples (7) or tokens (8). None where no step has any.

        Raises ValueError where some are absent, negative or not finite.
        """
        amounts = self.rows[column::ROW_LENGTH]
        first, count = amounts[0], len(amounts)
        if (same := amounts.count(first) == count) and first is None:
            return None
        if None in amounts or not min(amounts) >= 0:
            raise ValueError("amounts that are not all there")
        total = float(first) * count if same else math.fsum(amounts)
        if not math.isfinite(total):
            raise ValueError("amounts without a finite sum")
        return total

    def are_sound(self) -> bool:
        """Whether no step has a negative part, and each begins no earlier than the one before it ended."""
        columns = (self.waits, self.rows[6::ROW_LENGTH], self.lengths, self.gaps, self.turns)
        if min(self.nested, self.checkpoint, *map(min, columns)) < 0:
            return False
        if len(self) == 1:
            return True
        starts, ends = self.starts[1:], self.ends[:-1]
        if any(self.gaps):
            starts = list(map(sub, starts, self.gaps[1:]))
        return min(map(sub, self.lengths, self.waits)) >= 0 and (starts == ends or all(map(ge, starts, ends)))

    def are_interrupted(self) -> bool:
        """Whether the host was outside the loop between steps for more than MAX_ELSEWHERE of their whole time."""
        whole = self.end - self.begin
        return len(self) > 1 and whole - sum(self.turns) > MAX_ELSEWHERE * whole

    def events(self) -> Iterator[StepEnded]:
        """The steps as single events."""
        for event in steps_of_rows(self.rows):
            yield event._replace(
                nested=self.nested, checkpoint=self.checkpoint, failed=self.failed, parent=self.parent
            )

    def event(self, step: int) -> StepEnded:
        """The step of that number, as a single event. It must be among these steps."""
        return next(self.cut(step - self.first, step - self.first + 1).events())

    def cut(self, begin: int, end: int) -> Steps:
        """The steps from the one at the place `begin` to the one before the place `end`."""
        if begin <= 0 and end >= len(self):
            return self
        return Steps(self.rows[begin * ROW_LENGTH : end * ROW_LENGTH])


def grouped(rows: StepRows) -> Iterator[Steps]:
    """Split rows, in order, into groups that can be folded as columns. Raises ValueError where the last row is cut."""
    if len(rows) % ROW_LENGTH:
        raise ValueError(f"{len(rows)} values are no whole rows of {ROW_LENGTH}")
    if not rows:
        return
    count = len(rows) // ROW_LENGTH
    loops, steps, threads = rows[0::ROW_LENGTH], rows[1::ROW_LENGTH], rows[9::ROW_LENGTH]
    if loops.count(loops[0]) == threads.count(threads[0]) == count and _is_range(steps):
        yield Steps(rows)
        return
    # A step number that does not follow the one before it begins a new group.
    numbered = enumerate(zip(loops, threads, steps, strict=True))
    keys = [(loop, thread, step - at) for at, (loop, thread, step) in numbered]
    begin = 0
    for _, same in groupby(keys):
        end = begin + sum(1 for _ in same)
        yield Steps(rows[begin * ROW_LENGTH : end * ROW_LENGTH])
        begin = end


def _tuple(ran: object) -> tuple[int, ...]:
    return ran if isinstance(ran, tuple) else (ran,) if isinstance(ran, int) and ran else ()


def _is_range(numbers: Sequence[int]) -> bool:
    return list(numbers) == list(range(numbers[0], numbers[0] + len(numbers)))


class StepLog:
    """A loop's newest steps: at most `limit`, or the newest entry alone where that has more."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: deque[Steps] = deque()
        self._count = 0

    def append(self, steps: Steps) -> None:
        self._entries.append(steps)
        self._count += len(steps)
        while self._count > self._limit and len(self._entries) > 1:
            self._count -= len(self._entries.popleft())

    @property
    def newest(self) -> Steps | None:
        """The newest entry; None before the first."""
        return self._entries[-1] if self._entries else None

    def of(self, step: int) -> Steps | None:
        """The entry with the newest step of that number, if it is remembered."""
        for steps in reversed(self._entries):
            if steps.first <= step <= steps.last:
                return steps
        return None

    def __iter__(self) -> Iterator[Steps]:
        return iter(self._entries)
