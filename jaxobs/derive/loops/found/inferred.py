"""Loops that nobody marked: a function that is called again and again on one thread is the main function of one.

That is the first that each turn calls, unless the device is known to work far longer on another one of each turn. A turn
lasts from one call of the main function to the next. Whatever else is called between belongs to the turn, unless
it begins to repeat there as it does not in the other turns: then it is the main function of another loop, as an
evaluation between epochs is. Turns are reported as rows of plain steps, under the function's name, once they are a loop.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable
from itertools import pairwise

from jaxobs.derive.loops.found.candidate import LONG_TURN, TURNS, Call, Candidate, Followed
from jaxobs.model.clock import NANOSECONDS, seconds
from jaxobs.model.events import ROW_LENGTH, StepCompleted, StepRows

REPEATED = 3
"""Calls within a turn of another loop that make a function the main one of its own. Two are a value and a check of it."""

LOOPS = 8
"""More functions than this that each repeat are a script of many programs; the first ones stay."""

CANDIDATES = 64
"""Functions that may become a loop; of more the one that was not called for longest is given up."""

HELD = 20_000
"""Turns of a candidate that are kept; a second of turns that take 50 µs."""

FORGOTTEN = 60 * NANOSECONDS
"""A candidate that was not called for this long is given up, and so what it ran belongs to no loop. As `LONGEST_GAP`."""

CALLS_REMEMBERED = 10_000
"""Calls whose completion may still arrive. Completions are seconds late at most."""

FAR_LONGER = 2.0
"""A function on which the device works this many times as long as on the first one of each turn gives the loop its name:
an evaluation that a library makes before each epoch is not what is trained."""

PHASES = 100
"""The newest are kept: those that may lie in the turn under way."""


class InferredLoops:
    """`function_of` names the function of a run; `compiling` gives the nanoseconds of a stretch spent in compiles.

    `seconds_of` gives the device seconds of a run, where they are known.
    """

    def __init__(
        self,
        function_of: Callable[[int], str],
        compiling: Callable[[int, int, int], int],
        seconds_of: Callable[[int], float | None],
    ) -> None:
        self._function_of = function_of
        self._compiling = compiling
        self._seconds_of = seconds_of
        self._minor: set[str] = set()
        """Functions that begin turns of which another one is the main function."""
        self._candidates: dict[str, Candidate] = {}
        self._of: Candidate | None = None
        self._turn: list[Call] = []
        """Calls of the turn under way of the candidate `_of`; the first is its main function's."""
        self._counts: Counter[str] = Counter()
        """How often that turn has called each function."""
        self._phases: deque[tuple[int, int]] = deque(maxlen=PHASES)
        self._checkpoints: deque[tuple[int, int]] = deque(maxlen=PHASES)
        self._done: int | None = None
        """When the device was done with the newest call of that turn, where that was seen."""
        self.steps_of_calls: dict[int, tuple[str, int]] = {}
        self._rows: StepRows = []
        self._outside: Counter[int] = Counter()
        self._saved: dict[tuple[str, int], int] = {}

    @property
    def current(self) -> str | None:
        """The loop that is under way, if any is found, else the first one."""
        if self._of is not None and self._of.found:
            return self._of.function
        return min(self.names, key=list(self._candidates).index, default=None)

    @property
    def is_searching(self) -> bool:
        """Whether something was called that may become a loop."""
        return bool(self._candidates)

    @property
    def undecided_since(self) -> int | None:
        """When the first of the calls began of which it is not known yet whether they belong to a loop."""
        begun = [candidate.held[0][0][0].start for candidate in self._candidates.values() if candidate.held]
        if self._turn and self._of is not None and not self._of.found:
            begun.append(self._turn[0].start)
        return min(begun, default=None)

    @property
    def names(self) -> frozenset[str]:
        """Functions that are a loop's main one."""
        return frozenset(name for name, candidate in self._candidates.items() if candidate.found)

    def follow(self, rows: StepRows) -> Followed:
        """Calls in the order in which they were made, each as a row of a plain step without a loop."""
        for at in range(0, len(rows), ROW_LENGTH):
            number, start, dispatch, thread, run = (rows[at + place] for place in (1, 2, 6, 9, 10))
            self._called(Call(number, start, dispatch, thread, run, self._function_of(run)))
        return self._taken()

    def settle(self, now: int) -> Followed:
        """Give up what was not called for long, but for the newest: its call may last, as a training in one call does."""
        for name, candidate in list(self._candidates.items()):
            if not candidate.found and candidate is not self._of and now - candidate.last_call > FORGOTTEN:
                self._give_up(name)
        return self._taken()

    def end(self) -> Followed:
        """Nothing follows: the turn under way ends where the device was done with it, if that is known.

        What is no loop yet belongs to none.
        """
        if self._of is not None and self._of.found and self._turn and self._done is not None:
            self._close(self._done)
        self._leave_turn()
        for name in [name for name, candidate in self._candidates.items() if not candidate.found]:
            self._give_up(name)
        return self._taken()

    def phase_ended(self, start: int, end: int, *, checkpoint: bool = False) -> None:
        """A phase outside marked steps was over; a turn under way ends where the first one in it began.

        A checkpoint between two calls of a loop is part of its step, as one within a marked step is.
        """
        (self._checkpoints if checkpoint else self._phases).append((start, end))

    def ran(self, run: int, ended: int) -> Followed:
        """The device was seen to be done with a run at `ended`. A long one that is a whole turn ends the turn."""
        turn = self._turn
        alone = self._of is not None and not self._of.found and len(turn) == 1 and turn[0].run == run
        if alone and seconds(ended - turn[0].start) >= LONG_TURN:
            self._close(ended)
        return self._taken()

    def completed(self, event: StepCompleted) -> StepCompleted | None:
        """A completion of a call by its number, as that of the step whose main call it is; None for any other call."""
        if self._turn and self._turn[-1].number == event.step:
            self._done = max(event.time, self._turn[-1].start)
        step = self.steps_of_calls.get(event.step)
        return None if step is None else event._replace(loop=step[0], step=step[1])

    def _called(self, call: Call) -> None:
        self._done = None
        if self._turn and (call.number, call.thread) != (self._turn[-1].number + 1, self._turn[-1].thread):
            self._leave_turn()  # calls between were lost, or another thread is followed
        if not call.function:  # the event that named it was lost
            self._turn.append(call) if self._turn else self._leave([call])
            return
        of, mine = self._of, self._candidate(call)
        mine.last_call = call.start
        if call.function in self._minor and not self._turn:
            self._leave([call])
            return
        if of is None or not self._turn or mine is of or mine.found:
            if self._turn:
                self._close(call.start, by_next_call=True)
                if call.function in self._minor:  # since it was closed
                    self._called(call)
                    return
            self._open(mine, call)
            return
        self._turn.append(call)
        if of.found and mine.held and mine.turns < TURNS:
            self._forget_turns(mine)  # it has its place in the turns of a loop
        self._counts[call.function] += 1
        count, usual = self._counts[call.function], of.beside[call.function]
        if count >= REPEATED and count > 2 * usual:
            again = [at for at, other in enumerate(self._turn) if other.function == call.function]
            self._split(mine, again[usual:])

    def _split(self, mine: Candidate, again: list[int]) -> None:
        """From the first of these calls on the turn under way was turns of another loop."""
        calls = self._turn
        self._cut(calls[: again[0]], calls[again[0]].start)
        for begin, end in pairwise(again):
            self._open(mine, calls[begin])
            self._cut(calls[begin:end], calls[end].start)
        self._open(mine, calls[again[-1]])

    def _cut(self, turn: list[Call], end: int) -> None:
        self._turn, self._counts = turn, Counter(call.function for call in turn[1:])
        self._close(end)

    def _open(self, of: Candidate, call: Call) -> None:
        self._of, self._turn, self._counts = of, [call], Counter()
        if of.found:
            self._remember(call, of)

    def _close(self, end: int, *, by_next_call: bool = False) -> None:
        """The turn under way was over at `end`."""
        of, turn, self._turn = self._of, self._turn, []
        assert of is not None
        start = turn[0].start
        cuts = self._phases if of.found else (*self._phases, *self._checkpoints)
        end = min([end, *(begin for begin, _ in cuts if start < begin < end)])
        lasted = seconds(end - start - min(end - start, self._compiling(turn[0].thread, start, end)))
        of.turns += 1
        of.seconds += lasted
        for function, count in self._counts.items():
            of.beside[function] = max(count, of.beside[function])
        if of.found:
            self._tell(of, turn, end)
            return
        of.held.append((turn, end))
        if of.is_loop(lasted) and by_next_call and self._is_minor(of):
            self._begin_elsewhere(of)
        elif of.is_loop(lasted) and len(self.names) < LOOPS:
            of.found = True
            for calls, ended in of.held:
                self._remember(calls[0], of)
                self._tell(of, calls, ended)
            of.held.clear()
        elif len(of.held) > HELD:
            self._leave(of.held.pop(0)[0])

    def _is_minor(self, of: Candidate) -> bool:
        """Whether each turn calls another function as well, on which the device works far longer.

        Of a single one whose runs are not told apart, that may be all the time of the turns but the others'.
        """
        device_seconds: defaultdict[str, float] = defaultdict(float)
        for calls, _ in of.held:
            for call in calls:
                device_seconds[call.function] += self._seconds_of(call.run) or 0.0
        in_each = set.intersection(*({call.function for call in calls} for calls, _ in of.held))
        untimed = [function for function in in_each if not device_seconds[function]]
        if len(untimed) == 1:
            device_seconds[untimed[0]] = of.seconds - sum(device_seconds.values())
        others = [device_seconds[function] for function in in_each - {of.function}]
        return 0.0 < FAR_LONGER * device_seconds[of.function] < max(others, default=0.0)

    def _begin_elsewhere(self, of: Candidate) -> None:
        """Find the turns anew in which this function is not the main one."""
        self._minor.add(of.function)
        calls = [call for turn, _ in of.held for call in turn]
        del self._candidates[of.function]
        self._of, self._turn = None, []
        for call in calls:
            self._called(call)

    def _tell(self, of: Candidate, turn: list[Call], end: int) -> None:
        runs = turn[0].run if len(turn) == 1 else tuple(call.run for call in turn)
        dispatch = min(sum(call.dispatch for call in turn), end - turn[0].start)
        self._rows += (
            of.function, of.steps, turn[0].start, end, 0, 0, dispatch, None, None, turn[0].thread, runs,
        )  # fmt: skip
        start = turn[0].start
        saving = sum(min(stop, end) - begin for begin, stop in self._checkpoints if start < begin < end)
        if saving:
            self._saved[of.function, of.steps] = saving
        of.steps += 1

    def _remember(self, call: Call, of: Candidate) -> None:
        """The completion of this call is that of the step that is reported next."""
        self.steps_of_calls[call.number] = (of.function, of.steps)
        if len(self.steps_of_calls) > CALLS_REMEMBERED:
            del self.steps_of_calls[next(iter(self.steps_of_calls))]

    def _candidate(self, call: Call) -> Candidate:
        found = self._candidates.get(call.function)
        if found is None:
            if len(self._candidates) >= CANDIDATES:
                others = (
                    each for each in self._candidates.values() if not each.found and each is not self._of
                )
                self._give_up(min(others, key=lambda each: each.last_call).function)
            found = self._candidates[call.function] = Candidate(call.function)
        return found

    def _forget_turns(self, candidate: Candidate) -> None:
        for turn, _ in candidate.held:
            self._leave(turn)
        candidate.held.clear()
        candidate.turns, candidate.seconds = 0, 0.0

    def _give_up(self, name: str) -> None:
        candidate = self._candidates.pop(name)
        self._forget_turns(candidate)
        if candidate is self._of:
            self._leave_turn()

    def _leave_turn(self) -> None:
        self._leave(self._turn)
        self._of, self._turn = None, []

    def _leave(self, turn: list[Call]) -> None:
        self._outside.update(call.run for call in turn)

    def _taken(self) -> Followed:
        taken = Followed(self._rows, self._outside, self._saved)
        self._rows, self._outside, self._saved = [], Counter(), {}
        return taken
