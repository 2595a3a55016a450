"""Notices a loop that stands still, asks the job where its threads are, and keeps what was found.

A loop stands still where for many times the longest pause so far nothing has got on: no step, no call of a watched
function, no completion on the device, no compile and no phase has begun or ended. That is a hang, or something that never
happened before in this run and that nobody marked; which of them, the stacks tell a person.
"""

from __future__ import annotations

import builtins
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from jaxobs.derive.loops.host_lines import place_of
from jaxobs.derive.loops.loop import Loop
from jaxobs.derive.loops.stretches import IN_FLIGHT
from jaxobs.derive.refusal import require
from jaxobs.derive.steps import Steps
from jaxobs.model.clock import seconds
from jaxobs.model.events import (
    CompilePhaseEnded,
    CompilePhaseStarted,
    ExecutableRan,
    FunctionCalled,
    LoopEnded,
    LoopEntered,
    PhaseEnded,
    PhaseStarted,
    RunUnderWay,
    StacksTaken,
    StepCompleted,
    StepEnded,
)
from jaxobs.model.figure import figure
from jaxobs.vocabulary.activities import ACTIVITIES, UNKNOWN, WAITING

MIN_SECONDS: Final = 15.0
"""A shorter pause is no hang. Who is told of one within half a minute leaves the job the other half to be asked in."""

PAUSES: Final = 4.0
"""Multiple of the longest pause so far from which on a pause is a hang: an evaluation every so often is none."""

FIRST_SECONDS: Final = 300.0
"""The same for the first step of a pass, as a loader starts its workers anew and fills their queues, and for the first
run of an executable, which may be an evaluation in one call."""

MIN_STEPS: Final = 10
"""Steps of a loop from which on its pauses are known: before that it starts up, and its loader with it."""

ANSWER_SECONDS: Final = 5.0
"""Seconds after which a job has not answered. Its thread that does so wakes up once a second."""

LOST_SECONDS: Final = 15.0
"""The same where other news still arrive: then the answer was lost, or could not be given."""

UNANSWERED: Final = "the process does not answer"
LOST: Final = "the process answers, but the stacks of its threads did not come"

AGAIN_SECONDS: Final = 60.0
"""Seconds between two looks at the stacks of a loop that goes on standing still."""

KEPT: Final = 5
"""Newest hangs that are shown."""

STOPPED: Final = "it was stopped by a signal (SIGSTOP, or a debugger)"
"""Said of a process that does not answer for that."""

DEBUGGERS: Final = ("pdb.py:", "bdb.py:", "pydevd.py:")
"""Files of debuggers, in which a program waits for a person."""

PROMPTS: Final = ("input", "code.interact", "cmd.cmdloop in jax")
"""Calls in which it does so in a terminal; the last is of `jax.debug.breakpoint()`."""

NOTEBOOK_PROMPT: Final = " _input_request"
"""The same of ipykernel, by the name of its function."""

Sign = (
    StepEnded | StepCompleted | ExecutableRan | FunctionCalled | CompilePhaseStarted | CompilePhaseEnded
    | LoopEntered | LoopEnded | PhaseStarted | PhaseEnded
)  # fmt: skip
"""An event that shows that the job gets on."""

PAUSES_END: Final = (StepEnded, StepCompleted, ExecutableRan)
"""Signs that end a pause of a loop. What lies before others is a compile, a phase, or the time between two loops."""


class ThreadStack(NamedTuple):
    """Where a thread of the job is, as in `StacksTaken`."""

    thread: int
    name: str
    line: str
    waits_in: str
    activity: str
    frames: tuple[str, ...]


class Where(NamedTuple):
    """What is known of the job while nothing gets on."""

    loop: Loop | None
    """The loop that runs, None for none."""
    iterated: bool
    """Whether its end is reported. Else it may be over, and only the stack of its thread tells."""
    excused: bool
    """Whether a compile or a phase is under way."""
    under_way: RunUnderWay | None
    function: str | None
    """The function of the run under way."""
    is_first_run: bool
    """Whether no earlier run of that executable is known, so that it may take as long as it likes."""
    heard: int | None
    """When something last arrived from the job, in monotonic nanoseconds."""
    loads: Callable[[], Sequence[Mapping[str, Any]]]
    """How busy each device is, as `Devices.loads` has it."""


@dataclass(frozen=True, slots=True)
class Hang:
    """A loop that stands still, or stood still until `ended`. Times are monotonic nanoseconds."""

    loop: str
    steps: int
    """Steps that the host had ended."""
    in_flight: int | None
    """The newest of them with which the device was not seen to be done; None where that cannot be seen."""
    began: int
    pause: float
    """The longest pause before, in seconds."""
    function: str | None
    """The function that the device runs; None where nothing is known to be under way."""
    thread: int
    ended: int | None = None
    stacks: tuple[ThreadStack, ...] = ()
    silence: str = ""
    """Why there are no stacks."""
    devices: Sequence[Mapping[str, Any]] = ()
    """How busy each device was when the stacks were last taken: a collective that waits keeps one busy at low power."""

    @property
    def stuck(self) -> ThreadStack | None:
        """The loop's thread; None where that is not known."""
        return stack_of(self.stacks, self.thread)

    def to_dict(self, now: int, began: int) -> dict[str, Any]:
        """The hang as plain data; `began` is the start of the job."""
        stuck = self.stuck
        reason = self.silence or "the thread of the loop has ended"
        # What one does that answers, but whose stacks were lost, is not known: it may wait for its device.
        activity = UNKNOWN if self.silence == LOST else stuck and stuck.activity
        return {
            "loop": self.loop,
            "steps": self.steps,
            **figure(self.in_flight, "no completion of its steps was seen").under("steps_in_flight"),
            "began_seconds": seconds(self.began - began),
            "seconds": seconds((self.ended or now) - self.began),
            "over": self.ended is not None,
            "longest_pause_seconds": self.pause,
            **figure(self.function, "no run on the device is known to be under way").under("function"),
            **figure(stuck and stuck.line, reason).under("line"),
            **figure(stuck and stuck.waits_in, reason).under("waits_in"),
            **figure(activity, reason).under("activity"),
            "devices": list(self.devices),
            "threads": [
                {"name": each.name, "of_loop": each is stuck, "frames": list(each.frames)}
                for each in self.stacks
            ],
        }


class Hangs:
    """The watchdog of a job's loops. It decides by what the events say; who asks the job is its caller."""

    def __init__(self) -> None:
        self.kept: deque[Hang] = deque(maxlen=KEPT)
        """The newest hangs, the newest last."""
        self.count: Counter[str] = Counter()
        """How many there were, by loop."""
        self._enters = False
        """Whether the first step of a pass is under way."""
        self._last = self._last_at_look = 0
        self._longest = 0.0
        self._lines: tuple[frozenset[str], frozenset[str]] = frozenset(), frozenset()
        """The lines at which the loop's thread was sampled, before the last two looks that saw it get on. The newer may
        have what came after the loop."""
        self._asked: int | None = None
        self._looked = 0
        """When the stacks were last taken, or asked for in vain."""
        self._cleared = False
        """Whether the pause under way is known to be none of a loop."""
        self._suspended = 0
        """Nanoseconds of it in which this process did not run either."""
        self._answer: tuple[ThreadStack, ...] = ()

    @property
    def now(self) -> Hang | None:
        """The hang that lasts; None if nothing stands still."""
        return self.kept[-1] if self.kept and self.kept[-1].ended is None else None

    def seen(self, sign: Sign) -> None:
        """The job gets on."""
        time = sign.end if isinstance(sign, StepEnded | CompilePhaseEnded | PhaseEnded) else sign.time
        self.got_on(time, pause=time - self._last if isinstance(sign, PAUSES_END) else 0)
        self._enters = isinstance(sign, LoopEntered) or (self._enters and not isinstance(sign, StepEnded))

    def steps_ended(self, steps: Steps) -> None:
        """Steps have ended, or calls of watched functions."""
        self.got_on(steps.end, pause=max(steps.begin - self._last, *steps.turns, 0))
        self._enters = False

    def got_on(self, time: int, *, pause: int) -> None:
        """The job got on at `time`, after a pause of so many nanoseconds of a loop that runs; 0 if it was none."""
        if time <= self._last:
            return
        is_stopped = self.now is not None and STOPPED in self.now.silence
        if self._last and not (self._enters or self._cleared or is_stopped):
            self._longest = max(self._longest, seconds(pause - self._suspended))
        self._last, self._suspended = time, 0
        self._asked, self._cleared, self._answer = None, False, ()
        if (hang := self.now) is not None:
            # What was on its way when the job fell silent tells only when that began.
            self.kept[-1] = replace(hang, began=time) if time < self._looked else replace(hang, ended=time)

    def answered(self, event: StacksTaken) -> None:
        """Take the stacks of the job's threads."""
        answer = tuple(ThreadStack(*row) for row in event.threads)
        require(all(each.activity in ACTIVITIES for each in answer), "an activity that there is not")
        self._answer = tuple(each._replace(activity=UNKNOWN) if _may_wait(each) else each for each in answer)

    def look(self, now: int, where: Where) -> bool:
        """Decide what is known by now. Returns whether the job is to be asked for the stacks of its threads."""
        answer, self._answer = self._answer, ()
        if where.loop is not None and self._last != self._last_at_look:
            self._last_at_look = self._last
            self._lines = self._lines[1], frozenset(each.line for each in where.loop.host.seconds)
        if answer and (self._asked is not None or self.now is not None):  # it may come late
            self._decide(now, where, answer, "")
            return False
        if self._asked is not None:
            silent = where.heard is None or where.heard < self._asked
            patience = ANSWER_SECONDS if silent else LOST_SECONDS
            if seconds(now - self._asked) > patience:
                self._decide(now, where, (), UNANSWERED if silent else LOST)
            return False
        if self.now is not None:
            is_due = seconds(now - self._looked) > AGAIN_SECONDS
        else:
            is_due = not self._cleared and self._is_long(now, where)
        self._asked = now if is_due else None
        return is_due

    def suspended(self, nanoseconds: int) -> None:
        """Leave out time in which this process did not run either: the machine slept, or all of the job was stopped."""
        self._suspended += nanoseconds
        self._asked = None if self._asked is None else self._asked + nanoseconds

    def silenced(self, reason: str) -> None:
        """Say why the job has not answered, as the system tells it."""
        if self.now is not None:
            self.kept[-1] = replace(self.kept[-1], silence=reason)

    def _is_long(self, now: int, where: Where) -> bool:
        """Whether the pause since the last sign is far longer than any before it."""
        loop = where.loop
        if loop is None or where.excused:
            return False
        # A host that waits for many steps at once looks idle where none of their completions is seen.
        in_flight = self._in_flight(loop)
        is_unseen = loop.stretches.watched and (in_flight is None or in_flight > IN_FLIGHT)
        usual = IN_FLIGHT * loop.usual_turn if is_unseen else 0.0
        is_first = self._enters or (where.under_way is not None and where.is_first_run)
        limit = max(FIRST_SECONDS if is_first else MIN_SECONDS, PAUSES * self._longest, usual)
        return loop.steps >= MIN_STEPS and seconds(now - self._last - self._suspended) > limit

    def _decide(self, now: int, where: Where, stacks: tuple[ThreadStack, ...], silence: str) -> None:
        """Decide by the stacks, or where there are none, `silence` says why.

        A loop whose end nobody reports may be over by then: without stacks that is not known.
        """
        self._asked, self._looked = None, now
        loop = where.loop
        is_over = bool(stacks) and not (loop and self._is_in_loop(stack_of(stacks, loop.thread), where))
        if (hang := self.now) is not None:
            self.kept[-1] = replace(
                hang, stacks=stacks or hang.stacks, silence="" if stacks else hang.silence,
                ended=now if is_over else None, devices=where.loads(),
            )  # fmt: skip
            self._cleared = is_over
        elif loop is None or is_over:
            self._cleared = True
        elif stacks or where.iterated or where.under_way is not None:
            self.count[loop.name] += 1
            self.kept.append(Hang(
                loop.name, loop.steps, self._in_flight(loop), self._last, self._longest, where.function, loop.thread,
                stacks=stacks, silence=silence, devices=where.loads(),
            ))  # fmt: skip

    @staticmethod
    def _in_flight(loop: Loop) -> int | None:
        """How many of a loop's newest steps the device was not seen to be done with; None if none of them was seen."""
        if loop.stretches.host_waits:
            return 0
        newest, done = loop.stretches.log.newest, loop.stretches.done
        return None if newest is None or done is None else max(0, newest.last - done)

    def _is_in_loop(self, stack: ThreadStack | None, where: Where) -> bool:
        """Whether a thread with this stack is within the loop; None for a thread that has ended.

        A run under way belongs to a step. Otherwise one of its frames must be in a function in which the loop's thread
        was sampled; where no iteration tells its end, between the first and the last of these lines.
        """
        if stack is None or stack.waits_in in PROMPTS:
            return False
        if any(frame.startswith(DEBUGGERS) or frame.endswith(NOTEBOOK_PROMPT) for frame in stack.frames):
            return False
        ranges = _ranges(self._lines[0])
        if where.under_way is not None or (where.iterated and not ranges):
            return True
        known = [(ranges[place], number) for place, number in map(place_of, stack.frames) if place in ranges]
        return any(where.iterated or first <= number <= last for (first, last), number in known)


def stack_of(stacks: Sequence[ThreadStack], thread: int) -> ThreadStack | None:
    """The stack of that thread, if it is there."""
    return next((each for each in stacks if each.thread == thread), None)


def _may_wait(stack: ThreadStack) -> bool:
    """Whether it may wait for the device in a jitted function that nobody watches, which is C code with a plain name."""
    name = stack.waits_in
    is_own = stack.frames[:1] == (stack.line,) and name.isidentifier() and not hasattr(builtins, name)
    return is_own and stack.activity == WAITING


def _ranges(lines: Iterable[str]) -> Mapping[tuple[str, str], tuple[int, int]]:
    """The first and the last line by file and function."""
    ranges: dict[tuple[str, str], tuple[int, int]] = {}
    for place, number in map(place_of, lines):
        first, last = ranges.get(place, (number, number))
        ranges[place] = min(first, number), max(last, number)
    return ranges
