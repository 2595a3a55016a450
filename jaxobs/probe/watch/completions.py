"""Finds out when the device was done with a step, by asking one small output of it whether it is ready.

A device finishes what one thread dispatched in the order of dispatch, so one output that is ready tells that all steps
before it are done, too. Which steps leave an output is told by `AskedTurns`. It is asked three times over: by the
training thread after the call and at the end of the turn, and in between by a thread that sleeps in Python: about twice
a second that one waits for the step that the device is working on, and polls it closely. (A thread that sits in
`block_until_ready()` at interpreter exit aborts the process; one that sleeps does not.) What was dispatched to an idle
device and was polled to its end tells how long its executable runs.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

from jaxobs.jax_compat.arrays import is_ready
from jaxobs.model.clock import NANOSECONDS, now, seconds
from jaxobs.model.events import ExecutableRan, RunUnderWay, StepCompleted
from jaxobs.plugin.guard import Suppressed, raised_by_signal_handler
from jaxobs.plugin.threads import Call, Flag
from jaxobs.probe.steps.loops import GOLDEN, PAIRED, AskedTurns, Step, UnmarkedCalls
from jaxobs.probe.watch.signatures import SMALL, OutputLeaf, holds_up

MAX_OUTPUTS = 64
"""Most outputs of one thread that are kept at a time; of large ones fewer, so that all are no more than twice SMALL."""

POLL_SHARE = 0.03
"""Spacing of polls as a share of the wait so far, and the most by which a completion may be off as a share of the time
since the one before it. The relative error is then the same for a step of 30 ms or of a minute."""

MIN_POLL, MAX_POLL = 0.001, 0.05

FIRST_RUN = NANOSECONDS // 2
"""Nanoseconds of the shortest run of a call that compiled which is reported. It is cold: memory is touched for the first
time, and the next compile takes the processors. One of 0.5 ms was seen to take 33 ms, one of 5 ms 112 ms."""

LONG_RUN = 2 * NANOSECONDS
"""Nanoseconds after which a run is reported while it lasts (`RunUnderWay`): it may be a whole training."""

BESIDE = NANOSECONDS
"""Nanoseconds before a clean run in which no other thread may have called: what it called may be under way."""

RETURNS_AT_ONCE = 1_000_000
"""Nanoseconds by which a call that ran its work within itself returns after it at most."""


class Output:
    """An output of one call, for the turn that the call is in. Times are by `now()`.

    `leaf`: the array, or a weak reference to a large one; None once it is ready. `begun`: the first and the last moment
    at which the run may have begun on a device that was idle. `not_ready`: when it was last known to be unfinished;
    `ready`: when it was first seen to be done, 0 before. `complete`: no further call is expected in its turn. `clean`:
    the device was idle before, as far as is seen. `gone`: its turn has called again, so it does not stand for the turn
    any more.
    """

    def __init__(
        self, turns: AskedTurns, number: int, run: int, started: int, ended: int, compiled: int | None = None
    ) -> None:
        """`compiled`: when the compile that the call began with was over, if it did."""
        self.turns = turns
        self.number = number
        self.run = run
        self.begun = (started if compiled is None else compiled, ended)
        self.compiled = compiled is not None
        self.not_ready = ended
        self.ready = 0
        self.complete = True
        self.clean = self.gone = self.told = False
        self.leaf: Any = None
        self.way: OutputLeaf

    def is_done(self) -> bool:
        """Ask whether the device is done with it. Raises RuntimeError if its leaf died before that was seen."""
        asked, leaf = now(), self.leaf
        if not self.ready and leaf is not None:
            try:
                if is_ready(leaf):
                    self.seen(now())
                else:
                    self.not_ready = max(self.not_ready, asked)
            except RuntimeError as error:
                # The other thread may have seen it in time.
                if not self.ready or raised_by_signal_handler(error):
                    raise
        return self.ready > 0

    def seen(self, ready: int) -> None:
        """Note that it was ready at that moment, if not earlier, and let go of it."""
        self.ready = self.ready or ready
        self.leaf = None
        self.way.found()

    def time(self) -> tuple[int, int]:
        """When it was done, and by how much that may be off."""
        uncertainty = max(0, self.ready - self.not_ready) // 2
        return self.ready - uncertainty, uncertainty

    def duration(self) -> tuple[int, int]:
        """How long it ran if the device was idle before, and by how much that may be off."""
        least, most = max(0, self.not_ready - self.begun[1]), self.ready - self.begun[0]
        return (least + most) // 2, (most - least) // 2


class Outputs:
    """The outputs of one thread, in order of dispatch."""

    def __init__(self) -> None:
        self.waiting: deque[Output] = deque()
        self.idle_after: tuple[AskedTurns, int] | None = None
        """The turn at whose end the newest output was ready: the device was idle then."""
        self.done = self.not_before = 0
        """When the newest completion was, by `now()`, and before when it was not."""
        self.called = 0
        """When the thread last called, as far as its calls are asked or only counted."""

    @property
    def newest(self) -> Output | None:
        """The newest that is kept. The other thread may take it at any moment, also between two looks."""
        try:
            return self.waiting[-1]
        except IndexError:
            return None

    def add(self, output: Output, size: int) -> None:
        """Add an output of so many bytes; where there are enough, in place of the newest."""
        if len(self.waiting) < max(2, min(MAX_OUTPUTS, 2 * SMALL // max(1, size))):
            self.waiting.append(output)
        else:
            with Suppressed(IndexError):  # the other thread has just taken them
                self.waiting[-1].gone, self.waiting[-1].leaf = True, None
                self.waiting[-1] = output

    def remove(self, output: Output) -> None:
        """Remove an output that may have been removed already."""
        output.gone, output.leaf = True, None
        with Suppressed(ValueError):
            self.waiting.remove(output)

    def all_done(self, newest: Output) -> None:
        """Let go of all, as the newest is done; that one stays to be told."""
        for output in self.waiting.copy():
            output.told = output.told or output is not newest
        self.waiting.clear()
        self.waiting.append(newest)

    def done_up_to(self, output: Output) -> None:
        """Let go of all up to an output that is done."""
        waiting = list(self.waiting.copy())  # a copy, as the other thread may put another in their place
        for done in waiting[: waiting.index(output) + 1] if output in waiting else ():
            done.seen(output.ready)
            done.told = True
            with Suppressed(ValueError):  # the other thread has just taken it
                self.waiting.remove(done)
        self.done = max(self.done, output.time()[0])
        self.not_before = max(self.not_before, output.not_ready)


Turn = Step | UnmarkedCalls
Found = tuple[Outputs, Output]


class Completions:
    """Keeps outputs of calls, tells when the device was done with them, and lets go of them.

    `called`, `turn_ended` and `loop_left` are called on the thread that trains, all else on the polling thread.
    """

    def __init__(self, emit: Callable[[Any], None], interval: float) -> None:
        self._emit = emit
        self._interval = interval
        self.stopped = Flag()
        self._arrived = Call()
        self._wanted = False
        """Whether the polling thread waits for an output that is not ready."""
        self._left = False
        """Whether the host has left a loop of which nothing more comes that would be known better."""
        self._calls = self._rounds = 0
        self._outputs: defaultdict[int, Outputs] = defaultdict(Outputs)
        """By thread."""

    def called(
        self, way: OutputLeaf, result: Any, output: Output, turn: Turn, args: Any, kwargs: Any
    ) -> None:
        """Keep a leaf of this call's result for the turn that it is in, in place of that of an earlier call."""
        try:
            outputs = self._outputs[threading.get_ident()]
            outputs.called = output.begun[1]
            self._look_at_newest(outputs)
            leaf = None if way.exhausted else way.take(result)
            if leaf is not None:
                output.way, output.leaf = way, leaf
                self._begun(output, outputs)
                others = [other for other in list(self._outputs.values()) if other is not outputs]
                if output.clean and (holds_up(args, kwargs) or any(map(self._look_at_newest, others))):
                    output.clean = False
                if type(turn) is Step or output.number:  # else it is in none
                    self._stands_for(output, turn, outputs)
                outputs.add(output, way.size)
                self._calls += 1
                self._arrive(output)
                if isinstance(turn, UnmarkedCalls) and output.number == turn.last:
                    self.loop_left()  # as what comes next may be another loop's
            elif way.exhausted:
                output.turns.give_up()
            if self.stopped.is_set():  # meanwhile, on another thread
                self.let_go()
        except Exception as error:  # outputs may be anything, or deleted; never into the user's call
            if raised_by_signal_handler(error):
                raise
            way.lost()

    def called_beside(self, thread: int, started: int) -> None:
        """Note a call that is only counted."""
        self._outputs[thread].called = started

    def _begun(self, output: Output, outputs: Outputs) -> None:
        """Note whether the device was idle when the call began, and whether the backend ran it within the call."""
        if output.compiled:  # during a compile the device works off what was dispatched before
            output.clean = (newest := outputs.newest) is None or newest.ready > 0
        else:
            output.clean = outputs.idle_after == (output.turns, output.number - 1)
        if output.is_done():
            begun = output.begun[0]
            output.begun = (begun, begun)
            output.not_ready = max(begun, output.not_ready - RETURNS_AT_ONCE)

    def _stands_for(self, output: Output, turn: Turn, outputs: Outputs) -> None:
        """Let the output be that of its turn, as far as is known yet."""
        if type(turn) is Step:
            turn.plain = False
            output.complete = 1 + len(turn.later_runs) >= output.turns.calls
            output.clean &= not turn.later_runs
        if turn.output is not None:
            outputs.remove(turn.output)
        turn.output = output

    def _look_at_newest(self, outputs: Outputs) -> bool:
        """Look at the newest output after the next call: that call may have taken it before it was ready.

        Returns whether it is unfinished.
        """
        newest = outputs.newest
        return newest is not None and self._is_done(outputs, newest) is False

    def _is_done(self, outputs: Outputs, output: Output) -> bool | None:
        """Ask an output. None if it was donated or released before it was seen to be ready: it is let go of then."""
        try:
            return output.is_done()
        except RuntimeError as error:  # "Array has been deleted"
            if raised_by_signal_handler(error):
                raise
            outputs.remove(output)
            output.way.lost()
            return None

    def turn_ended(self, turn: Turn) -> None:
        """Ask the output of a turn, at the turn's end, whether the device is done with it."""
        if type(turn) is UnmarkedCalls and turn.followed != threading.get_ident():
            return
        output, turn.output = turn.output, None
        if output is None or output.gone:
            return
        turns, outputs = output.turns, self._outputs[threading.get_ident()]
        if type(turn) is Step:
            turns.calls = 1 + len(turn.later_runs)
        done = self._is_done(outputs, output)
        if done is None:
            return
        turns.asked(output.run, ready=done)
        if done:
            outputs.all_done(output)
            outputs.idle_after = (turns, output.number)
        elif not output.complete:
            output.complete = True
            self._arrive(output)

    def _arrive(self, output: Output) -> None:
        if self._wanted and output.complete and not output.turns.next_is_better:
            self._wanted = False
            self._arrived.make()

    def loop_left(self) -> None:
        """Tell when the device was done with a loop that the host leaves, or let the polling thread wait for that."""
        outputs = self._outputs[threading.get_ident()]
        newest = outputs.newest
        if newest is None or newest.told:
            return
        if newest.ready:
            self._tell(outputs, newest)
        else:
            self._left = True
            self._arrived.make()

    def run(self) -> None:
        """Poll in rounds until `stop`; the polling thread's main function.

        The pause before round n is twice the interval times the fractional part of 0.5 + n times GOLDEN, so no phase
        recurs. A host that dispatched an epoch, waited and evaluated, once a second, was always met in its evaluation.
        """
        phase = 0.5
        while not self.stopped.is_set():
            self._arrived.wait(2 * phase * self._interval)
            calls = self._calls
            found = self._round()
            # Where the host dispatches nothing more, the end of each is waited for.
            while found is not None and calls == self._calls and not self.stopped.is_set():
                found = self._unfinished()
                self._await(found)
            phase = (phase + GOLDEN) % 1.0

    def stop(self) -> None:
        """Let `run` come to its end."""
        self.stopped.set()
        self._arrived.make()

    def end(self) -> None:
        """Tell what is done by now; the last question, after the end of `run`."""
        self._unfinished()
        self._tell_newest(sure=self._interval)

    def let_go(self) -> None:
        """Hold no array of the job's any more; after the end of `run`, and in a forked child."""
        for outputs in list(self._outputs.values()):
            for output in list(outputs.waiting):
                outputs.remove(output)

    def _round(self) -> Found | None:
        """Wait for the step that the device is working on. None where there was none."""
        found = self._unfinished()
        left, self._left = self._left, False
        if found is None and not self._tell_newest(sure=self._interval if left else MIN_POLL):
            self._arrived.forget()
            self._wanted = True
            if self.stopped.is_set():  # it may be that call which was forgotten
                return None
            arrived = self._arrived.wait(self._interval)
            self._wanted = False
            found = self._unfinished()
            if not arrived:
                self._tell_newest(sure=self._interval)  # nothing comes that would be known better
        self._await(found)
        self._tell_newest()
        return found

    def _unfinished(self) -> Found | None:
        """The oldest output that is not ready, of each thread in turn."""
        threads = list(self._outputs.values())
        self._rounds += 1
        for outputs in threads[self._rounds % max(1, len(threads)) :] + threads:
            for output in outputs.waiting.copy():
                if output.complete and self._is_done(outputs, output) is False:
                    return outputs, output
        return None

    def _await(self, found: Found | None) -> None:
        """Poll until the output is ready, and tell of it; until `stop` or another call of its turn."""
        if found is None:
            return
        outputs, output = found
        begun = max(output.begun[0], outputs.done)
        asked, next_report = now(), begun + LONG_RUN
        since = asked
        while (done := self._is_done(outputs, output)) is False:
            if self.stopped.is_set() or output.gone:
                return
            asked = now()
            if asked >= next_report:
                next_report = asked + NANOSECONDS
                self._emit(RunUnderWay(output.run, begun, asked))
            self.stopped.wait(min(MAX_POLL, max(MIN_POLL, POLL_SHARE * seconds(asked - since))))
        if done:
            self._tell(outputs, output)

    def _tell_newest(self, sure: float = 0.0) -> bool:
        """Tell of each thread's newest output that is ready, where its end is known well.

        `sure`: seconds by which one may be off in any case. Returns whether any was told, and none of them of a loop of
        which the next run is to be polled all the same.
        """
        told = poll = False
        for outputs in list(self._outputs.values()):
            done = [output for output in outputs.waiting.copy() if output.ready and not output.told]
            if done:
                time, uncertainty = done[-1].time()
                since = time - (done[-1].turns.told_at or done[-1].begun[0])
                if uncertainty <= max(sure * NANOSECONDS, POLL_SHARE * since):
                    self._tell(outputs, done[-1])
                    told, poll = True, poll or done[-1].turns.every == PAIRED
        return told and not poll

    def _tell(self, outputs: Outputs, output: Output) -> None:
        """Report that the device was done with an output's turn, and how long its run took if that is known."""
        if output.told:  # by the other thread, or a later one was
            return
        output.told = True  # it may be put back at the end of its turn
        output.not_ready = max(output.not_ready, min(outputs.not_before, output.ready))
        time, uncertainty = output.time()
        # The one before was asked later, and may have been done sooner than told.
        late = max(0, outputs.done - time)
        time, uncertainty = time + late, uncertainty + late
        outputs.done_up_to(output)
        if output.turns.name or output.number:  # else the call was in no step and has no number
            output.turns.completed(time)
            self._emit(StepCompleted(output.turns.name, output.number, time, uncertainty))
        duration, error = output.duration()
        cold = output.compiled and duration < FIRST_RUN
        others = [other.called for other in list(self._outputs.values()) if other is not outputs]
        alone = max(others, default=0) < output.begun[0] - BESIDE
        if output.clean and alone and not cold and duration > 0:
            self._emit(ExecutableRan(output.run, seconds(duration), seconds(error), output.ready))
