"""Steps, loops and phases as the user marks them: the hot path.

One turn of a loop costs a few clock readings and one row in the ring. One `Step` object serves all turns of an
iteration, so no turn leaves behind an object that Python's garbage collector tracks. A watched call belongs to the step
that is under way on its thread.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from typing import Any, Self

from jaxobs.flow.ring import Ring
from jaxobs.model.clock import NANOSECONDS, now
from jaxobs.model.events import MAX_GAP, RAN, UNMARKED, FunctionCalled, LoopDeclared, StepEnded, TurnsAsked
from jaxobs.plugin.guard import Suppressed
from jaxobs.plugin.log import warn
from jaxobs.plugin.span_context import current_span_context
from jaxobs.vocabulary.text import MAX_LOOP_NAMES, OTHER

GOLDEN = (5**0.5 - 1) / 2
"""The number of which multiples, without their whole part, come nearest to lying evenly: they resonate with no period."""

_CHOSEN = {1: (0, (1, 1)), 7: (4, (5, 8)), 18: (6, (13, 21)), 123: (10, (89, 144)), 521: (13, (377, 610))}
EVERY = tuple(_CHOSEN)
"""One turn in so many is asked whether the device is done, and goes into the loop's average duration; the others skip
that work. They are chosen by number, as of turns picked by time too many would follow upon a wait, and in no period: turn
n is one of them where the fractional part of n times GOLDEN is below a power of GOLDEN, whose exponent stands first. So a
host that waits in each tenth turn, or each seventh, is met waiting as often as it waits. From one of them to the next it
is one of two Fibonacci numbers (the three-distance theorem: Sós, 1958)."""

SHARE = {every: GOLDEN**power for every, (power, _) in _CHOSEN.items()}
GAPS = {every: gaps for every, (_, gaps) in _CHOSEN.items()}

PAIRED = EVERY[1]
"""Where one turn in so many is asked, the next is, too: where the first leaves the device idle, it is known when the run
of the second begins. Of longer turns each is asked, and the runs of shorter ones are too short for polls to time them."""

ASKED_APART = 20_000_000
"""Least nanoseconds from one such turn to the next, but for the shortest turns: to ask costs a thousandth of it."""

PACE_OVER = 5 * ASKED_APART
"""Nanoseconds over which the duration of a turn is averaged to choose one of EVERY."""

COMPLETIONS = 2
"""Completions of a loop until which each of its turns leaves an output: without two there is no rate."""

PASSES_APART = NANOSECONDS // 4
"""Nanoseconds between two passes through a loop for which it is to be seen when the last turn is done."""

LAST_TURNS = 3
"""Turns around the one that was the last of the pass before which are asked, as this pass may be a little shorter."""


MAX_OTHERS = 1_000_000
"""Calls that wait to be counted: a second has fewer, but a forked child counts none."""


class AskedTurns:
    """Which of a loop's turns leave a small output, and in how many it was ready at the turn's end."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.every = EVERY[-1]
        """One turn in so many is asked."""
        self.calls = 1
        """Calls of watched functions in the newest turn that was asked."""
        self.completions = 0
        self.told_at = 0
        """When the newest completion that was told was, by `now()`."""
        self.last: int | None = None
        """The number of the turn with which this pass may end, as the one before did; None where that is not asked."""
        self.counted = False
        """Whether the turn under way counts: those that are asked for other reasons would be met too often."""
        self.left_idle = False
        """Whether the output of the newest turn that counts was ready at its end."""
        self._found: deque[tuple[int, bool]] = deque(maxlen=MAX_OTHERS)
        self._number = self._at = self._away_since = self._pass_seen = 0
        self._next_counted = 0, 0

    def enter(self, number: int, at: int, turns: int | None) -> None:
        """Note that a pass begins with the turn of that number; the one before had so many turns."""
        if self._at:  # what passed between the two is no time of a turn
            self._at = min(at, self._at + at - self._away_since)
        self._away_since = at
        self.pass_begins(number, at, turns)

    def pass_begins(self, number: int, at: int, turns: int | None) -> None:
        """Expect that the pass which begins with that turn has as many turns as the one before."""
        self.last = None
        if at - self._pass_seen >= PASSES_APART:
            self._pass_seen = at
            self.last = number - 1 + (turns or -LAST_TURNS)

    def leave(self, at: int) -> None:
        """Note that a pass is over."""
        self._away_since = at

    def asks(self, number: int, at: int) -> bool:
        """Whether the turn of that number, which begins now, leaves an output."""
        turns, passed = number - self._number, at - (self._at or at)
        if passed >= PACE_OVER and turns > 0:
            self.every = next((every for every in EVERY if every * passed >= ASKED_APART * turns), EVERY[-1])
            self._number, self._at = number, at
        self._at = self._at or at
        self.counted = self._counts(number)
        follows = self.every == PAIRED and self._counts(number - 1)
        ends = self.last is not None and abs(number - self.last) <= LAST_TURNS
        # A loop of which none came in so many turns, as where nothing is watched, is not held up for it in each.
        soon = self.completions < COMPLETIONS and number < EVERY[-1]
        return self.counted or follows or ends or soon

    @property
    def next_is_better(self) -> bool:
        """Whether of the run of the next turn, but not of this one, it will be known that the device was idle before."""
        return self.counted and self.left_idle and self.every == PAIRED

    def _counts(self, number: int) -> bool:
        return number * GOLDEN % 1.0 < SHARE[self.every]

    def next_asked(self, number: int) -> int:
        """The next turn after that of `number` which is asked by its number, or because the pass may end with it."""
        (every, by_count), (short, long) = self._next_counted, GAPS[self.every]
        if every != self.every:
            by_count = next(
                filter(self._counts, range(number, -1, -1))
            )  # each number has 0 before it, which counts
        while by_count <= number:
            by_count += short if self._counts(by_count + short) else long
        self._next_counted = self.every, by_count
        ending = by_count if self.last is None else self.last - LAST_TURNS
        return ending if number < ending < by_count else by_count

    def asked(self, run: int, *, ready: bool) -> None:
        """Note whether the output of the turn that ends was ready; outside steps the loop is told by the `run`."""
        if self.counted:
            self.left_idle = ready
            self._found.append((0 if self.name else run, ready))

    def completed(self, time: int) -> None:
        """Note that a completion was told."""
        self.completions += 1
        self.told_at = time

    def give_up(self) -> None:
        """Note that no completion is to be expected."""
        self.completions = max(COMPLETIONS, self.completions)

    def new(self) -> Iterator[TurnsAsked]:
        """What was found since the last call of this; on the sender's thread."""
        found = Counter(self._found.popleft() for _ in range(len(self._found)))
        for run in dict.fromkeys(run for run, _ in found):
            ready = found[run, True]
            yield TurnsAsked(self.name, found[run, False] + ready, ready, now(), run)


MAIN_THREAD_SILENT, MAIN_THREAD_BACK = 10 * NANOSECONDS, 60 * NANOSECONDS
"""Nanoseconds without a call on the main thread after which another thread that calls counts as the one that trains: the
second once the main thread has called again, as its steps may take that long while another thread prepares input."""


class UnmarkedCalls(AskedTurns):
    """Notes the calls of the thread that trains, until the script marks a step: marked steps make the loops then.

    The thread that trains is the main thread, unless it is silent. Each call is a turn, which ends with the next.
    """

    def __init__(self, ring: Ring) -> None:
        super().__init__(UNMARKED)
        self._extend, self._advance = ring.extend, ring.advance
        self._main = self.followed = threading.main_thread().ident
        self._latest = 0
        """When the last call on the followed thread began."""
        self.ran = 0
        """What it ran."""
        self._silent = MAIN_THREAD_SILENT
        self.count = 0
        self.off = False
        self._first = 1
        """The first call of the pass under way: of those in a row that run the same."""
        self._passes: dict[int, tuple[int, int]] = {}
        """By run, the calls in its last pass, and when one was last to be seen to its end."""
        self.output: Any = None
        """That of the newest call, until it is asked."""
        self.others: defaultdict[int, deque[int]] = defaultdict(lambda: deque(maxlen=MAX_OTHERS))
        """What calls outside steps ran that are only counted, by thread."""

    def others_called(self) -> Iterator[FunctionCalled]:
        """The others since the last call of this: an event for each call would be a flood. On the sender's thread."""
        for thread, runs in list(self.others.items()):
            for run, calls in Counter(runs.popleft() for _ in range(len(runs))).items():
                yield FunctionCalled(run, calls, now(), thread)

    def note(self, run: int, started: int, ended: int) -> int:
        """Emit the call as a row of the ring. Returns its number, from 1 on; 0 where the caller shall only count it."""
        thread = threading.get_ident()
        if self.off or (thread != self.followed and not self._follow(thread, started)):
            return 0
        self.count = number = self.count + 1
        if run != self.ran:
            self._begin_pass(number, started, run)
        self._latest, self.ran = started, run
        self._extend((UNMARKED, number, started, ended, 0, 0, ended - started, None, None, thread, run))
        self._advance()
        return number

    def _begin_pass(self, number: int, started: int, run: int) -> None:
        """Begin a pass of another run than the one before."""
        self._passes.pop(self.ran, None)
        self._passes[self.ran] = number - self._first, self._pass_seen
        if len(self._passes) > MAX_LOOP_NAMES:
            del self._passes[next(iter(self._passes))]
        turns, self._pass_seen = self._passes.get(run, (None, 0))
        self._first = number
        self.pass_begins(number, started, turns)

    @property
    def on_another_thread(self) -> bool:
        """Whether the steps of the job are the calls of another thread than the main thread."""
        return not self.off and self.followed != self._main

    @property
    def newest(self) -> str:
        """What stands in the place of a loop's name in a sample of the main thread: nothing once its pass is over."""
        output = self.output  # which the training thread may take away
        is_over = self.count == self.last and output is not None and output.ready
        return "" if self.off or is_over or not self.ran else f"{RAN}{self.ran}"

    def _follow(self, thread: int, started: int) -> bool:
        """Whether this thread is to be followed from now on."""
        if thread == self._main:
            self._silent = MAIN_THREAD_BACK
        elif started - self._latest < self._silent:
            return False
        self.followed = thread
        return True


SLOW = 3
"""A step slower than the loop's average by this factor notes the current span, as the parent of its own span. So do the
steps numbered up to it, in which most is compiled."""


class Step:
    """The step under way on a thread; watched calls add to it."""

    __slots__ = (
        "asks", "checkpoint", "dispatch", "failed", "hidden", "later_runs", "nested", "number", "outer", "output",
        "plain", "run", "several", "state", "thread",
    )  # fmt: skip

    outer: Step | None
    """What a hidden step stands in the place of."""

    def __init__(self, state: AskedTurns) -> None:
        self.state = state
        self.hidden = False  # True while JAX traces: this step is never reported, and nothing runs in it
        self.asks = False  # whether an output is kept of its last call
        self.output: Any = None  # that output
        self.plain = True  # whether it has no output, no nested time, no checkpoint and no failure
        self.thread = threading.get_ident()
        self.number = 0
        self.dispatch = 0
        self.nested = 0
        self.checkpoint = 0
        self.failed = False
        self.run = 0  # what the first watched call ran; 0, which is no run's number, before there is one
        self.later_runs: list[int] = []
        self.several: tuple[int, ...] = ()  # the runs of the last step that had several

    def runs(self) -> int | tuple[int, ...]:
        """The step's runs, as a row of the ring holds them. Successive steps with the same runs share one tuple."""
        if not self.later_runs:
            return self.run
        runs = (self.run, *self.later_runs)
        if runs != self.several:
            self.several = runs
        return self.several

    def fail(self) -> None:
        """Note that the step failed."""
        self.failed, self.plain = True, False

    def claim(self, nested: int, checkpoint: int = 0) -> None:
        """Take nanoseconds out of the step that belong to an inner loop or a phase, or to a checkpoint."""
        self.nested += nested
        self.checkpoint += checkpoint
        self.plain = False


class Current(threading.local):
    """What is under way on this thread: the step, the time claimed so far, and the phase around it.

    Loops and phases claim their time, so that what is around them does not count it again.
    """

    step: Step | None = None
    claimed: int = 0
    phase: Any = None

    def around(self) -> Step | None:
        """The step around a mark that begins now; None where there is none.

        A step that no mark and no loop refers to any more has ended unnoticed, and is dropped: a signal handler raised
        on entering the `__exit__` of its mark, before any line of that could run.
        """
        if self.step is not None and not self.step.hidden and sys.getrefcount(self.step) <= _HELD_HERE_ALONE:
            self.step = None
        return self.step

    def hide_step(self) -> None:
        """Put a hidden step in the place of this thread's step, as a trace begins: what runs now counts in no step."""
        hidden = Step(AskedTurns(""))
        hidden.hidden, hidden.outer = True, self.step
        self.step = hidden

    def restore_step(self) -> None:
        """Undo the last `hide_step`, as its trace has ended. An end without a beginning changes nothing."""
        if self.step is not None and self.step.hidden:
            self.step = self.step.outer

    def innermost(self) -> Any:
        """The phase under way that began last; None where there is none. One that ended unnoticed is dropped."""
        while self.phase is not None and sys.getrefcount(self.phase) <= _HELD_HERE_ALONE:
            self.phase = self.phase.around
        return self.phase


_HOLDER = [Step(AskedTurns(""))]
_HELD_HERE_ALONE = sys.getrefcount(_HOLDER[0])
"""The reference count of an object with a single holder, as `sys.getrefcount` of this Python shows it."""


class LoopState(AskedTurns):
    """A loop by name: its step numbers go on when the loop is entered again (epochs)."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.steps = 0
        self.average = 0  # nanoseconds
        self.passed: int | None = None  # steps of its last pass
        self.last_end: int | None = None
        # The thread, its `Current.claimed` and `Current.phase` at `last_end`.
        self.thread = self.claimed_then = 0
        self.phase: object = None
        self.flops: float | None = None
        self.plain_until = 0
        """The number of the next turn for whose end, or for the beginning of the one after it, there is more to do."""
        self.plain_before = 0
        """When the pace of turns is to be looked at again, by `now()`."""

    def begin(self, step: Step, at: int) -> None:
        """Give the step that begins its number, and let it be asked if it is its turn."""
        step.number = number = self.steps
        step.asks = self.asks(number, at)
        self.plain_until = number if step.asks or number <= SLOW else self.next_asked(number) - 1
        self.plain_before = self._at + PACE_OVER


class Loops:
    """What all marks share: the ring, the loops by name, and whether a profiler session is under way."""

    def __init__(self, ring: Ring) -> None:
        self.current = Current()
        self.unmarked = UnmarkedCalls(ring)
        self.profiler_session: object | None = None
        self.annotation: Any = None
        self.failed: Callable[[BaseException | None, str | None], None] = lambda error, function: None
        """Called with an error on its way through, and the watched function that raised it, if any; must not raise."""
        self.turn_ended: Callable[[Step], None] = lambda step: None
        """Called at the end of a step that was to leave an output."""
        self.left: Callable[[], None] = lambda: None
        """Called when the host leaves a loop whose end is to be seen."""
        self.ring = ring
        self.over = False
        """Whether the observer has ended: nothing is told any more."""
        self._loops: dict[str, LoopState] = {}

    def __deepcopy__(self, _: object) -> Self:
        return self  # a copied trainer that holds marks is in the same process

    def state(self, name: str) -> LoopState:
        """The loop of that name, or where there are too many names, the one loop of all further ones."""
        self.unmarked.off = True
        if name not in self._loops and len(self._loops) >= MAX_LOOP_NAMES:
            name = OTHER
        return self._loops.get(name) or self._loops.setdefault(name, LoopState(name))

    def turns_asked(self) -> Iterator[TurnsAsked]:
        """What was found at the ends of turns since the last call of this; on the sender's thread."""
        for each in (self.unmarked, *list(self._loops.values())):
            yield from each.new()

    def steps_ended(self) -> int:
        return sum(state.steps for state in list(self._loops.values()))

    def between_steps(self, phase: object) -> str:
        """The loop that may be between two of its marked steps on the main thread, in this phase; empty: there is none.

        The time until its next step is the loop's, and what the main thread does in it as well.
        """
        main, ends = threading.main_thread().ident, {"": 0}
        for state in list(self._loops.values()):
            if state.thread == main and state.phase is phase:
                ends[state.name] = state.last_end or 0
        newest = max(ends, key=lambda name: ends[name])
        return newest if now() - ends[newest] <= MAX_GAP else ""

    def annotate(self, loop: str, number: int) -> Any:
        """A step annotation of JAX's, entered, while its profiler is running; None otherwise, and on failure."""
        if self.profiler_session is None:
            return None
        with Suppressed(Exception):  # a trace without our step is no reason to stop a training run
            annotation = self.annotation(loop, step_num=number)
            annotation.__enter__()
            return annotation
        return None

    def end_step(
        self,
        state: LoopState,
        step: Step,
        start: int,
        end: int,
        gap: int,
        input_wait: int,
        amounts: tuple[float | None, float | None],
    ) -> None:
        """Emit the step, count it, and clear what `step` has nested or failed. `amounts`: its examples and tokens."""
        if step.asks or step.output is not None:
            self.turn_ended(step)
        number = state.steps
        examples, tokens = amounts
        duration = end - start - step.nested - step.checkpoint
        average = state.average
        state.average = average + ((duration - average) >> 2) if average else duration
        notable = duration > SLOW * average or number <= SLOW
        parent = current_span_context() if notable else None
        runs = step.runs()
        if parent is None and not (step.nested or step.checkpoint or step.failed):
            times = (start, end, gap, input_wait, step.dispatch)
            self.ring.extend((state.name, number, *times, examples, tokens, step.thread, runs))
            self.ring.advance()
        else:
            ran = runs if isinstance(runs, tuple) else (runs,) if runs else ()
            # Time that a signal handler has marked since `end` was read belongs to the next turn.
            nested = min(step.nested, end - start)
            self.ring.emit(
                StepEnded(
                    state.name, number, start, end, gap, input_wait, step.dispatch, nested, step.checkpoint,
                    examples, tokens, step.failed, step.thread, ran, parent,
                )
            )  # fmt: skip
            step.nested, step.checkpoint = step.nested - nested, 0
            step.failed = False
        step.plain = not step.nested
        state.steps = number + 1
        state.last_end = end
        state.begin(step, end)

    def declare(self, state: LoopState, flops: float | None) -> None:
        """Report the user's own FLOPs of a step, the first time and whenever they change; say if it is within itself."""
        if not state.steps and (outer := self.current.around()) is not None and outer.state is state:
            warn(
                f"loop {state.name!r} is within itself, and the steps of both are counted: name one of them (loop=…)"
            )
        if flops is not None and flops is not state.flops and flops != state.flops:  # NaN equals nothing
            state.flops = flops
            self.ring.emit(LoopDeclared(state.name, flops, now()))
