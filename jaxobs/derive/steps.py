"""Steps of one loop as columns, one or many at once: sums, counts and comparisons of many run in C."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import groupby
from operator import add, ge, sub
from typing import Final

from jaxobs.model.events import ROW_LENGTH, StepEnded, StepRows, calls_of, steps_of_rows

MAX_ELSEWHERE = 0.02
"""Largest share of the time of many steps that may lie between them and be ignored: no figure is as exact as that."""


AMOUNTS: Final = {"examples": 7, "tokens": 8}
"""The user's own counts of a step's work, with their columns in rows of steps."""


class Steps:
    """Consecutive steps of one loop on one thread. Times are monotonic nanoseconds; lists have one entry per step.

    Many steps have no more to them than times, amounts and runs; the other fields are those of a single step, by its
    `event`.
    """

    def __init__(self, rows: StepRows, event: StepEnded | None = None) -> None:
        self.rows = rows
        self._event = event
        self.nested, self.checkpoint = (event.nested, event.checkpoint) if event else (0, 0)
        self.failed = event is not None and event.failed
        self.compiling = self.compiling_in_wait = 0
        """Nanoseconds of its turn in compiles on its thread, and those of its wait for input."""
        self.loop: str = rows[0]
        self.thread: int = rows[9]
        self.first: int = rows[1]
        self.last: int = rows[1 - ROW_LENGTH]
        """The numbers of the first and the last step."""
        self.starts: list[int] = rows[2::ROW_LENGTH]
        self.ends: list[int] = rows[3::ROW_LENGTH]
        self.gaps: list[int] = rows[4::ROW_LENGTH]
        self.waits: list[int] = rows[5::ROW_LENGTH]
        """How long each step waited for input at its beginning."""
        self.lengths = list(map(sub, self.ends, self.starts))
        self.turns = list(map(add, self.gaps, self.lengths)) if any(self.gaps) else self.lengths
        """How long each step took with the gap before it and without what is nested in it."""
        if self.nested:
            self.turns = [self.turns[0] - self.nested]
        self.begin = self.starts[0] - self.gaps[0]
        """When the first turn began, which includes the gap before its step."""
        self.end = self.ends[-1]
        self.ran: list[object] = rows[10::ROW_LENGTH]
        """What each step ran: executables by number, or watched functions whose executable is not visible."""
        is_same = self.ran.count(self.ran[0]) == len(self.ran)
        alike = {self.ran[0]: len(self.ran)} if is_same else Counter(self.ran)
        self.each_ran = calls_of(self.ran[0]) if len(alike) == 1 else None
        """What each of the steps ran, in order; None where that is not the same for all."""
        self.runs: Counter[int] = Counter()
        """How often each executable or watched function ran; by number."""
        for ran, steps in alike.items():
            for run in calls_of(ran):
                self.runs[run] += steps

    @classmethod
    def of(cls, event: StepEnded) -> Steps:
        """A single step."""
        row = [*event[:7], *event[9:11], event.thread, event.runs]  # as columns hold it
        return cls(row, event)

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property  # read where a step can be refused: the user may have given anything
    def amounts(self) -> dict[str, float | None]:
        """What all of them together had of the user's own counts of a step's work."""
        return {word: _total(self.rows[column::ROW_LENGTH]) for word, column in AMOUNTS.items()}

    @property
    def input_wait(self) -> int:
        """Nanoseconds of all waits for input, without compiles in them."""
        return max(0, sum(self.waits) - self.compiling_in_wait)

    def nanoseconds_with(self) -> dict[int, int]:
        """Nanoseconds of the turns in which each executable or watched function ran, by number."""
        if self.each_ran is not None:
            return dict.fromkeys(self.each_ran, sum(self.turns))
        found: Counter[int] = Counter()
        for ran, turn in zip(self.ran, self.turns, strict=True):
            for run in set(calls_of(ran)):
                found[run] += turn
        return found

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
        return iter((self._event,)) if self._event else steps_of_rows(self.rows)

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
    is_range = steps == list(range(steps[0], steps[0] + count))
    if is_range and loops.count(loops[0]) == threads.count(threads[0]) == count:
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


def _total(amounts: Sequence[float | None]) -> float | None:
    """The sum of amounts; None where no step has any.

    NaN where some are absent, negative or not finite, so that no sum of them is known.
    """
    first, count = amounts[0], len(amounts)
    if (same := amounts.count(first) == count) and first is None:
        return None
    known = [amount for amount in amounts if amount is not None and amount >= 0]
    if first is None or len(known) < count:
        return math.nan
    total = float(first) * count if same else sum(known)
    return total if math.isfinite(total) else math.nan


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
