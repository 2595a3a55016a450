"""Finds loops that nobody marked: a function called again and again on one thread is the main function of a loop.

The main function is the first that each turn calls, unless the device is known to work far longer on another function
of each turn. A turn lasts from one call of the main function to the next. Functions called in between belong to the
turn, unless one begins to repeat there as it does in no other turn: then it is the main function of another loop, as
an evaluation between epochs is. Turns that make a loop are reported as rows of plain steps under the function's name.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

from jaxobs.model.clock import seconds
from jaxobs.model.events import MAX_GAP, ROW_LENGTH, StepCompleted, StepRows

TURNS, TURNS_SECONDS = 2, 1.0
"""A loop has at least this many turns, which take this many seconds without compiles: fewer do not show its pace."""

LONG_TURN = 2.0
"""Seconds of a single turn, without compiles, that are enough for a loop: an epoch in one call is called few times."""

UNTIMED_TURNS = 3
"""Turns for which it is waited until runs have been timed: the first compile, and later ones may be sampled."""

NEXT_TO_NOTHING = 1e-9
"""Seconds of a function for whose runs the others' left no time."""

FAR_LONGER = 2.0
"""Times the device's seconds on the first function of each turn from which on another is the main one: an evaluation
that a library makes before each epoch is not what is trained."""

REPEATED = 3
"""Calls within one turn that make a function the main one of another loop. Two may be a value and a check of it."""

LOOPS = 8
"""Most loops found: more functions that each repeat are a script of many programs. The first ones stay."""

CANDIDATES = 64
"""Most functions that may become a loop; beyond that the least recently called one is given up."""

HELD = 20_000
"""Turns kept of a candidate: a second of turns that take 50 µs. Of one turn at most as many calls without a name."""

CALLS_REMEMBERED = 10_000
"""Calls whose completion may still arrive: completions are seconds late at most."""

COMPLETIONS_REMEMBERED = 100
"""Completions kept of calls that are no loop's yet: two a second, for as long as a loop may be looked for."""

OF_A_PASS = 100
"""Newest turns of a pass that tell how long its last one is: enough for a mean within some hundredths."""

PHASES = 100
"""Newest phases kept: those that may lie in the turn under way."""


class Call(NamedTuple):
    """One call of a watched function outside marked steps.

    `number` counts such calls, `start` is in monotonic nanoseconds, `dispatch` is the nanoseconds that the call took.
    """

    number: int
    start: int
    dispatch: int
    thread: int
    run: int
    function: str


class Turn(NamedTuple):
    """One turn of a loop. `is_open`: another loop's call ended it, and nobody saw when it was over before that."""

    calls: list[Call]
    end: int
    is_open: bool


@dataclass(slots=True)
class Candidate:
    """A function that may be a loop's main one. `beside`: the most calls of each other function in one turn."""

    function: str
    turns: int = 0
    steps: int = 0
    seconds: float = 0.0
    found: bool = False
    last_call: int = 0
    beside: Counter[str] = field(default_factory=Counter)
    held: list[Turn] = field(default_factory=list)
    """Turns to be reported if this becomes a loop."""

    def is_loop(self, newest: float) -> bool:
        """Whether its turns so far make a loop; `newest`: seconds of the newest turn."""
        return (self.turns >= TURNS and self.seconds >= TURNS_SECONDS) or newest >= LONG_TURN

    def is_minor(self, seconds_of: Callable[[int], float | None]) -> bool | None:
        """Whether each of its turns calls another function, too, on which the device works far longer.

        None where more than one function of each turn has no timed run yet, for a few turns: a run that lasts is timed
        up to a second after its end. An untimed run takes as long as the function's timed ones do on average. Where the
        runs of one function alone are untimed, it may have all seconds of the turns but the others'.
        """
        calls_of, timed = Counter[str](), defaultdict[str, list[float]](list)
        for call in (call for turn in self.held for call in turn.calls):
            calls_of[call.function] += 1
            if one := seconds_of(call.run):
                timed[call.function].append(one)
        device_seconds = {name: count * fmean(timed[name] or (0.0,)) for name, count in calls_of.items()}
        in_each = set.intersection(*({call.function for call in turn.calls} for turn in self.held))
        untimed = [function for function in in_each if not device_seconds[function]]
        if len(untimed) == 1:
            left = self.seconds - sum(device_seconds.values())
            device_seconds[untimed[0]] = max(left, NEXT_TO_NOTHING)
        elif untimed and self.turns < UNTIMED_TURNS:
            return None
        others = [device_seconds[function] for function in in_each - {self.function}]
        return 0.0 < FAR_LONGER * device_seconds[self.function] < max(others, default=0.0)


@dataclass(slots=True)
class Followed:
    """What unmarked calls turned out to be: `rows` of steps in order of time, or calls by run that belong to no loop.

    `saved`: nanoseconds of checkpoints within a step, by the step's loop and number. `completed`: steps whose calls the
    device was seen to be done with before it was known that they are steps. `open_ended`: steps, by loop and number, that
    last in their rows until another loop's call, but may have ended before.
    """

    rows: StepRows = field(default_factory=list)
    outside: Counter[int] = field(default_factory=Counter)
    saved: dict[tuple[str, int], int] = field(default_factory=dict)
    completed: list[StepCompleted] = field(default_factory=list)
    open_ended: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))


class InferredLoops:
    """`function_of` names the function of a run; `compiling` gives the nanoseconds of a stretch spent in compiles.

    `seconds_of` gives the device seconds of a run, at most, None where they are not known. `waits` tells of a loop that
    was found whether the host waits for the device in each turn.
    """

    def __init__(
        self,
        function_of: Callable[[int], str],
        compiling: Callable[[int, int, int], int],
        seconds_of: Callable[[int], float | None],
        waits: Callable[[str], bool] = lambda loop: False,
    ) -> None:
        self._function_of = function_of
        self._compiling = compiling
        self._seconds_of = seconds_of
        self._waits = waits
        self._minor: set[str] = set()
        """Functions called first in turns that have another main function."""
        self._candidates: dict[str, Candidate] = {}
        self._active: Candidate | None = None
        """The candidate whose turn is under way, or was last."""
        self.turned_away: str | None = None
        """The first function that was called again when as many loops as there may be had been found."""
        self._turn: list[Call] = []
        """Calls of the turn under way; the first is the active candidate's."""
        self._counts: Counter[str] = Counter()
        """How often that turn has called each function."""
        self._phases: deque[tuple[int, int]] = deque(maxlen=PHASES)
        self._checkpoints: deque[tuple[int, int]] = deque(maxlen=PHASES)
        self._done: int | None = None
        """When the device was done with the newest call of that turn; None where that was not seen."""
        self._pass: deque[int] = deque(maxlen=OF_A_PASS)
        """Nanoseconds of the newest turns since those of the active candidate follow upon each other."""
        self.steps_of_calls: dict[int, tuple[str, int]] = {}
        self._known = Followed()
        self._early: dict[int, StepCompleted] = {}
        """Completions of calls that may yet turn out to be a step's, by the call."""

    def under_way(self) -> str | None:
        """The loop found whose turn is under way; None where there is none."""
        active = self._active
        return active.function if self._turn and active is not None and active.found else None

    def loop_of(self, run: int) -> str:
        """The loop found in whose turns a run of that number is called; of several that under way; empty for none."""
        function = self._function_of(run)
        found = {name: each for name, each in self._candidates.items() if each.found}
        within = [name for name, each in found.items() if function in each.beside]
        if function in found or len(within) == 1:
            return function if function in found else within[0]
        return self.under_way() or "" if within else ""

    @property
    def undecided_since(self) -> int | None:
        """Start of the earliest call that may yet turn out to belong to a loop; None where there is no such call."""
        begun = [
            candidate.held[0].calls[0].start for candidate in self._candidates.values() if candidate.held
        ]
        if self._turn and self._active is not None and not self._active.found:
            begun.append(self._turn[0].start)
        return min(begun, default=None)

    def follow(self, rows: StepRows) -> Followed:
        """Take calls, in order, each as a row of a plain step of no loop; returns what is known by now."""
        for at in range(0, len(rows), ROW_LENGTH):
            number, start, dispatch, thread, run = (rows[at + place] for place in (1, 2, 6, 9, 10))
            self._add_call(Call(number, start, dispatch, thread, run, self._function_of(run)))
        return self._take()

    def settle(self, now: int) -> Followed:
        """Give up candidates not called for long, but not the active one, whose call may be a whole training."""
        for name, each in list(self._candidates.items()):
            if not each.found and each is not self._active and now - each.last_call > MAX_GAP:
                self._give_up(name)
        return self._take()

    def end(self) -> Followed:
        """End a loop's last turn where the device was done with it, if that is known; other calls belong to no loop."""
        if self._active is not None and self._active.found and self._turn and self._done is not None:
            self._close(self._done)
        self._leave_turn()
        for name in [name for name, candidate in self._candidates.items() if not candidate.found]:
            self._give_up(name)
        return self._take()

    def phase_ended(self, start: int, end: int, *, checkpoint: bool = False) -> None:
        """A phase outside marked steps was over. Turns end where one begins, but a loop's steps include checkpoints."""
        (self._checkpoints if checkpoint else self._phases).append((start, end))

    def ran(self, run: int, ended: int) -> Followed:
        """The device was done with a run at `ended`; a long run that is a candidate's whole turn ends the turn.

        Where the host is ahead of the device, the run may be that of an earlier call: then the newest is not `_done`.
        """
        turn = self._turn
        alone = self._active is not None and not self._active.found and len(turn) == 1 and turn[0].run == run
        if alone and self._done is not None and seconds(ended - turn[0].start) >= LONG_TURN:
            self._close(ended)
            if (loop := self._active) is not None and loop.found and loop.steps:
                self._known.completed.append(StepCompleted(loop.function, loop.steps - 1, ended, 0))
        return self._take()

    def completed(self, event: StepCompleted) -> StepCompleted | None:
        """Turn the completion of a call into that of the step whose main call it is; None for any other call."""
        if self._turn and self._turn[-1].number == event.step:
            self._done = max(event.time, self._turn[-1].start)
        if (step := self.steps_of_calls.get(event.step)) is not None:
            return event._replace(loop=step[0], step=step[1])
        self._early[event.step] = event
        if len(self._early) > COMPLETIONS_REMEMBERED:
            del self._early[next(iter(self._early))]
        return None

    def _add_call(self, call: Call) -> None:
        done, self._done = self._done, None
        if self._turn and (call.number, call.thread) != (self._turn[-1].number + 1, self._turn[-1].thread):
            self._leave_turn()  # calls in between were lost or left out, or another thread is followed
        if not call.function:  # the event that named it was lost
            self._turn.append(call) if 0 < len(self._turn) < HELD else self._leave_out([call])
            return
        active, called = self._active, self._candidate(call)
        called.last_call = call.start
        if call.function in self._minor and not self._turn:
            self._leave_out([call])
            return
        if active is None or not self._turn or called is active or called.found:
            if self._turn:
                self._close_before(call.start, done, alike=called is active)
                if call.function in self._minor:  # `_close` found that out
                    self._add_call(call)
                    return
            self._open(called, call)
            return
        self._turn.append(call)
        if active.found and called.held and called.turns < TURNS:
            self._forget_turns(called)  # it belongs to the turns of a loop
        self._counts[call.function] += 1
        count, usual = self._counts[call.function], active.beside[call.function]
        if count >= REPEATED and count > 2 * usual:
            again = [at for at, other in enumerate(self._turn) if other.function == call.function]
            self._split(called, again[usual:])

    def _close_before(self, next_call: int, done: int | None, *, alike: bool) -> None:
        """Close the turn under way, as that call begins the next one. `alike`: one of the same loop.

        A turn ends before a pause in which nothing is done. It begins where the device is `done` with the turn's newest
        call, and no checkpoint is saved any more. Before another loop's call the host does as much for the turn as it did
        for the others of this pass, on average; where it waits for the device in each, that tells the end without `done`.
        """
        assert self._active is not None
        end, start, ends_pass = next_call, self._turn[0].start, not alike and bool(self._pass)
        if done is None and ends_pass and self._waits(self._active.function):
            done = start
        if done is not None:
            paused = max([done, *(stop for _, stop in self._checkpoints if stop <= next_call)])
            if ends_pass:
                end = min(next_call, max(paused, start + round(fmean(self._pass))))
            elif next_call - paused > MAX_GAP:
                end = paused
        self._close(end, by_next_call=True, is_open=ends_pass and done is None)

    def _split(self, candidate: Candidate, again: list[int]) -> None:
        """Make turns of another loop's `candidate` from the turn under way, one from each of its calls `again`."""
        calls = self._turn
        self._close_turn(calls[: again[0]], calls[again[0]].start, is_open=bool(self._pass))
        for begin, end in pairwise(again):
            self._open(candidate, calls[begin])
            self._close_turn(calls[begin:end], calls[end].start)
        self._open(candidate, calls[again[-1]])

    def _close_turn(self, turn: list[Call], end: int, *, is_open: bool = False) -> None:
        self._turn, self._counts = turn, Counter(call.function for call in turn[1:])
        self._close(end, is_open=is_open)

    def _open(self, candidate: Candidate, call: Call) -> None:
        if candidate is not self._active:
            self._pass.clear()
        self._active, self._turn, self._counts = candidate, [call], Counter()
        if candidate.found:
            self._remember(call, candidate)

    def _close(self, end: int, *, by_next_call: bool = False, is_open: bool = False) -> None:
        """The turn under way was over at `end`."""
        active, turn, self._turn = self._active, self._turn, []
        assert active is not None
        start = turn[0].start
        end = _cut(start, end, self._phases)
        self._pass.append(end - start)
        # The time of a save makes no loop of two calls.
        saved = end if active.found else _cut(start, end, self._checkpoints)
        lasted = seconds(saved - start - min(saved - start, self._compiling(turn[0].thread, start, saved)))
        active.turns += 1
        active.seconds += lasted
        for function, count in self._counts.items():
            active.beside[function] = max(count, active.beside[function])
        each = Turn(turn, end, is_open)
        if active.found:
            self._report(active, each)
            return
        active.held.append(each)
        if sum(each.found for each in self._candidates.values()) >= LOOPS:
            self.turned_away = self.turned_away or active.function
            self._forget_turns(active)
            return
        # Where a function began to repeat in a turn of several, the next call decides which is the main one.
        is_loop = active.is_loop(lasted) and (by_next_call or len(turn) == 1)
        minor = is_loop and active.is_minor(self._seconds_of)
        if minor:
            self._replay_as_minor(active)
        elif is_loop and minor is not None:
            active.found = True
            for each in active.held:
                self._remember(each.calls[0], active)
                self._report(active, each)
            active.held.clear()
        elif len(active.held) > HELD:
            self._leave_out(active.held.pop(0).calls)

    def _replay_as_minor(self, first: Candidate) -> None:
        """Find turns in these calls anew, with another function as the main one."""
        self._minor.add(first.function)
        calls = [call for turn in first.held for call in turn.calls]
        del self._candidates[first.function]
        self._active, self._turn = None, []
        for call in calls:
            self._add_call(call)

    def _report(self, loop: Candidate, each: Turn) -> None:
        turn, end, is_open = each
        runs = turn[0].run if len(turn) == 1 else tuple(call.run for call in turn)
        start, thread = turn[0].start, turn[0].thread
        dispatch = min(sum(call.dispatch for call in turn), end - start)
        self._known.rows += (loop.function, loop.steps, start, end, 0, 0, dispatch, None, None, thread, runs)
        if saving := sum(min(stop, end) - begin for begin, stop in self._checkpoints if start < begin < end):
            self._known.saved[loop.function, loop.steps] = saving
        if is_open:
            self._known.open_ended[loop.function].append(loop.steps)
        loop.steps += 1

    def _remember(self, call: Call, loop: Candidate) -> None:
        """Note that this call's completion will be that of the step of the loop that is reported next."""
        self.steps_of_calls[call.number] = (loop.function, loop.steps)
        if (early := self._early.pop(call.number, None)) is not None:
            self._known.completed.append(early._replace(loop=loop.function, step=loop.steps))
        if len(self.steps_of_calls) > CALLS_REMEMBERED:
            del self.steps_of_calls[next(iter(self.steps_of_calls))]

    def _candidate(self, call: Call) -> Candidate:
        if (found := self._candidates.get(call.function)) is None:
            if len(self._candidates) >= CANDIDATES:
                others = (
                    one for one in self._candidates.values() if not one.found and one is not self._active
                )
                self._give_up(min(others, key=lambda each: each.last_call).function)
            found = self._candidates[call.function] = Candidate(call.function)
        return found

    def _forget_turns(self, candidate: Candidate) -> None:
        for turn in candidate.held:
            self._leave_out(turn.calls)
        candidate.held.clear()
        candidate.turns, candidate.seconds = 0, 0.0

    def _give_up(self, name: str) -> None:
        candidate = self._candidates.pop(name)
        self._forget_turns(candidate)
        if candidate is self._active:
            self._leave_turn()

    def _leave_turn(self) -> None:
        self._leave_out(self._turn)
        self._active, self._turn = None, []

    def _leave_out(self, turn: list[Call]) -> None:
        self._known.outside.update(call.run for call in turn)

    def _take(self) -> Followed:
        taken, self._known = self._known, Followed()
        return taken


def _cut(start: int, end: int, phases: Iterable[tuple[int, int]]) -> int:
    """Where a turn from `start` to `end` ends if it ends where the first of these phases begins."""
    return min([end, *(begin for begin, _ in phases if start < begin < end)])
