"""Finds out when the device finished a call, by polling one output of a few calls from a thread that sleeps in Python.

The training thread never waits. One output leaf of each sampled call is kept until the device is done with it, and only
one at a time. The polling thread asks it `is_ready()`, and so does the training thread before the next call, which may
donate the leaf. (A thread that sits in `block_until_ready()` at interpreter exit aborts the process; one that sleeps
does not.) Two facts are measured: when a step's work was done, which gives the spacing of steps; and how long a run kept
the device: from its own start, or the end of the run before it if that is later, to its end; where the host is ahead,
the mean of the runs between two ends. A function without an output that can be polled is reported too.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from jaxobs.flow.pipe import Call
from jaxobs.jax_compat.arrays import is_ready
from jaxobs.model.clock import NANOSECONDS, now, seconds, thread_time
from jaxobs.model.events import ExecutableRan, RunUnderWay, StepCompleted, StepUnseen
from jaxobs.plugin.guard import Suppressed, raised_by_signal_handler
from jaxobs.plugin.threads import Flag
from jaxobs.probe.watch.polling.output_leaf import BURST, OutputLeaf
from jaxobs.probe.watch.polling.samples import Sample, completions_of, is_done, is_kept, is_lost

EVERY_BURST = 10
"""Once an executable has its first samples, only every tenth round times runs (a burst of calls); the others look at
one completion: 20 wake-ups a second cost a 0.75 ms loop 1.1 %, two cost nothing that could be measured."""

FIRST_SAMPLES = 12
"""Runs of a new executable until which every round is a burst: without any, its loop's device time is unknown.
They count whether or not they could be timed, so that runs too short for polling are not polled closely for ever."""

GOLDEN_RATIO = 0.618034
"""The pause before round n is twice the interval times the fractional part of 0.5 + n times this, so no phase recurs.
A host that dispatched an epoch, waited and evaluated, once a second, was always met in its evaluation."""

POLL_SHARE = 0.03
"""Spacing of polls as a share of the wait so far: the relative error is the same for a step of 1 ms or of a minute."""

SLEPT_THROUGH = 0.6
"""Share of the executable's shortest recent latency that is slept through before polling begins."""

SHORTEST_POLL, LONGEST_POLL = 0.0002, 0.05

TOLERANCE = 0.15
"""A run whose duration is not known to within this share is not reported."""

LATENCIES_KEPT = 1_000
"""Most entries of known latencies, two an executable; a recompiled program is another executable. A forgotten one is
polled from the first moment on, once."""

LONG_RUN = 2 * NANOSECONDS
"""Nanoseconds after which a run is reported while it lasts (`RunUnderWay`): it may be a whole training."""

SEEN_OF_LATE = 2 * NANOSECONDS
"""Nanoseconds for which a ready output counts as recent. Samples are a second apart at most, half of it on average."""

MOST_PASSED_BY = 20
"""Calls without an output to poll after which a round ends: until then a call of another function may follow."""

PATIENCE = 600.0
"""Seconds after which a sample is abandoned: a device that does not finish shows as steps that do not end."""


class Completions:
    """Samples calls and polls them. The hot path reads `armed`; all else is in sampled calls or the polling thread."""

    def __init__(self, emit: Callable[[Any], None], interval: float) -> None:
        self.armed = False
        self._emit = emit
        self._interval = interval
        self.stopped = Flag()
        self._arrived = Call()
        self._samples: list[Sample] = []
        self._thread_of_samples = 0
        self._wanted = 1
        self._idle = True
        self._unseen = self._passing_over = False
        self._between = 0
        self._unseen_reported = self._passed_by = 0
        self._latencies: dict[tuple[int, bool], deque[float]] = {}
        self._rounds = 0
        self._looked_at: Counter[int] = Counter()
        self._latest_run = 0
        self.latest_ready = 0
        """When an output was last seen to be ready, by `now()`."""
        self.cpu_seconds = 0.0
        self.without_samples: Callable[[], float | None] = lambda: None
        """Called by the polling thread while it has no sample; returns the seconds until it is due again, or None."""

        self.first_call_keeps_output: Callable[[], bool] = lambda: False
        """Whether an output of a call that compiled is kept: then none of a sampled call is."""

    @property
    def keeps_output(self) -> bool:
        """Whether an output of a sampled call is kept until the device is done with it."""
        samples = self._samples
        return bool(samples) and is_kept(samples[-1])

    def wake(self) -> None:
        """Let the polling thread call `without_samples` now."""
        self._arrived.make()

    def before_call(self) -> bool:
        """Whether this call may be sampled. Called on the training thread, while `armed`.

        The newest sample is asked first, because its leaf may be donated to the call.
        """
        samples = self._samples  # read once: the polling thread may begin a new list at any time
        if not samples:
            if self._passing_over:
                self._passing_over = False
                return False
            return True
        previous = samples[-1]
        self._idle = False
        with Suppressed(Exception):  # donated meanwhile, or no array of JAX's; never into the user's call
            if previous.ready is None and previous.seen_ready is None and is_ready(previous.leaf):
                previous.seen_ready = now()
                previous.leaf = None
            self._idle = True if previous.ready is not None else previous.seen_ready is not None
        if self._idle and len(samples) >= self._wanted:
            self.armed = False
            return False
        return True

    def after_call(  # noqa: C901  # hot
        self, way: OutputLeaf, result: Any, run: int, loop: str, step: int, started: int, ended: int
    ) -> None:
        """Keep a leaf of this sampled call's result, or disarm if there are enough. Called on the training thread."""
        try:
            leaf = None if way.exhausted else way.take(result)
            if leaf is None:
                self._pass_by(loop, step, ended)
                return
            if self.first_call_keeps_output():
                self._unseen = True
                return
            samples, thread = self._samples, threading.get_ident()
            if samples and thread != self._thread_of_samples:
                return
            self._thread_of_samples = thread
            lost = bool(samples) and is_lost(samples[-1])
            if lost:
                self._lose(samples[-1], loop, step, ended)
            elif len(samples) >= self._wanted:
                self.armed = False
                return
            elif samples and is_kept(samples[-1]):
                if run == samples[-1].run:
                    self._between += 1
                else:
                    self._unseen = True
                return
            idle_before, unseen, self._unseen = self._idle and bool(samples), self._unseen, False
            sample = Sample(way, leaf, run, loop, step, started, ended, idle_before, unseen, self._between)
            self._between = 0
            if is_ready(leaf):  # the backend ran it within the call
                sample.ready, sample.leaf = ended, None
            self._keep(samples, sample, in_place=lost)
        except Exception as error:  # outputs may be anything, or deleted; never into the user's call
            if raised_by_signal_handler(error):
                raise
            way.lost()

    def _keep(self, samples: list[Sample], sample: Sample, *, in_place: bool) -> None:
        """Add the sample; `in_place` of a lost one it ends the round, because further ones may be lost as well."""
        if in_place:
            samples[-1] = sample
            self._wanted = len(samples)
        else:
            samples.append(sample)
            if sample.run not in self._looked_at:
                self._wanted = BURST  # seen for the first time: then all of it, which may not come again soon
        if self.stopped.is_set():  # meanwhile, on another thread
            self.let_go()
        self._arrived.make()

    def _lose(self, last: Sample, loop: str, step: int, ended: int) -> None:
        """Note that the call that has returned took the leaf of the sample `last`, before it was seen to be ready."""
        self._unseen = True
        last.way.lost()
        if (last.loop, last.step) != (loop, step):
            self._tell_unseen(last.loop, last.step, ended)

    def _pass_by(self, loop: str, step: int, ended: int) -> None:
        """Note a call without an output that can be polled."""
        self._unseen = True
        self._passed_by += 1
        if ended - self.latest_ready >= SEEN_OF_LATE:  # else another function shows progress
            self._tell_unseen(loop, step, ended)
        if self._passed_by >= MOST_PASSED_BY and not self._samples:
            self.armed = False
            self._arrived.make()

    def _tell_unseen(self, loop: str, step: int, ended: int) -> None:
        """Report, once a second at most, that nothing shows when the device is done with this step's calls."""
        if (loop or step) and ended - self._unseen_reported >= NANOSECONDS:
            self._unseen_reported = ended
            self._emit(StepUnseen(loop, step, ended))

    def run(self) -> None:
        """Poll in rounds until `stop`; the polling thread's main function."""
        phase = 0.5
        while not self.stopped.wait(2 * phase * self._interval):
            self._round()
            phase = (phase + GOLDEN_RATIO) % 1.0
            self.cpu_seconds = thread_time()

    def stop(self) -> None:
        """Let `run` come to its end."""
        self.armed = False
        self.stopped.set()
        self.wake()

    def let_go(self) -> None:
        """Hold no array of the job's any more; after the end of `run`."""
        self._samples = []

    def _round(self) -> None:
        burst = self._looked_at[self._latest_run] < FIRST_SAMPLES or self._rounds % EVERY_BURST == 0
        self._samples = []
        self._wanted = BURST if burst else 1
        self._idle, self._unseen, self._passed_by, self._between = True, False, 0, 0
        # Else the first of the calls of a turn would always be the one sampled, where the host waits behind the last.
        self._passing_over = self._rounds % 2 == 1
        self._arrived.forget()
        self.armed = True
        done: list[Sample] = []
        while len(done) < self._wanted and (sample := self._next(done)) is not None:
            try:
                if not self._await(sample, done[-1] if done else None):
                    break
            except RuntimeError:  # "Array has been deleted"
                if self._is_replaced(sample, len(done)):
                    continue
                sample.way.lost()
                break
            sample.way.seen()
            sample.leaf = None
            done.append(sample)
        self.armed = False
        self._samples = []
        if done:
            self._rounds += 1
            self._report(done)

    def _next(self, done: list[Sample]) -> Sample | None:
        """Wait for the sample that follows those in `done`. None where the loop pauses, or no output can be polled."""
        while not self.stopped.is_set():
            if len(done) < len(self._samples):
                if not done:
                    self.without_samples()  # the run that it waits for may have ended just before this call began
                return self._samples[len(done)]
            if not (done or self.armed):
                return None
            called = self._arrived.wait(1.0 if done else self.without_samples())
            if done and not called:
                return None  # the samples there are must suffice
        return None

    def _is_replaced(self, sample: Sample, position: int) -> bool:
        """Whether the sample's leaf was donated to a call that replaces it as the sample at `position`."""
        while self._samples[position] is sample and not self.stopped.is_set():
            if not self._arrived.wait(1.0):
                return False
        return not self.stopped.is_set()

    def _await(self, sample: Sample, before: Sample | None) -> bool:
        """Poll until the leaf is ready. False after PATIENCE or `stop`; raises RuntimeError where the leaf died."""
        begun = sample.started
        if before is not None and before.ready is not None and not sample.idle_before:
            begun = max(begun, before.ready)
        next_report = begun + LONG_RUN
        latencies = self._latencies.setdefault((sample.run, before is not None), deque(maxlen=5))
        if len(self._latencies) > LATENCIES_KEPT:
            del self._latencies[next(iter(self._latencies))]
        ahead = SLEPT_THROUGH * min(latencies, default=0.0) - seconds(now() - begun)
        # Runs end in the order of their dispatch, so this one was not ready before its predecessor.
        last_not_ready = (
            max(sample.ended, before.ready) if before is not None and before.ready else sample.ended
        )
        if sample.ready is None and ahead > SHORTEST_POLL:
            self.stopped.wait(ahead)
        while sample.ready is None:
            asked = now()
            if is_done(sample):
                ready = sample.seen_ready or now()
                sample.uncertainty = max(0, ready - last_not_ready) // 2
                sample.ready = last_not_ready + sample.uncertainty
                break
            last_not_ready = asked
            if asked >= next_report:
                next_report = asked + NANOSECONDS
                self._emit(RunUnderWay(sample.run, begun, asked))
            waited = seconds(asked - begun)
            if waited > PATIENCE or self.stopped.is_set():
                return False
            self.stopped.wait(min(LONGEST_POLL, max(SHORTEST_POLL, POLL_SHARE * waited)))
        self.latest_ready = sample.ready
        latencies.append(seconds(max(0, sample.ready - begun)))
        return True

    def _report(self, done: list[Sample]) -> None:
        for sample in completions_of(done):
            if sample.loop or sample.step:  # else the call was in no step and has no number
                assert sample.ready is not None
                self._emit(StepCompleted(sample.loop, sample.step, sample.ready, sample.uncertainty))
        self._latest_run = done[-1].run
        for before, sample in pairwise(done):
            assert before.ready is not None
            assert sample.ready is not None
            self._looked_at[sample.run] += 1
            begin = sample.started if sample.idle_before else max(sample.started, before.ready)
            if sample.between:  # the host is ahead: the device has worked off equal runs since the one before
                begin = before.ready
            uncertainty = sample.uncertainty + (0 if begin == sample.started else before.uncertainty)
            runs = 1 + sample.between
            duration = (sample.ready - begin) // runs
            # A longer pause of the host may have left the device idle.
            is_pause = sample.between and sample.started - begin > duration
            sure = uncertainty <= TOLERANCE * duration * runs
            if not sample.behind_unseen and duration > 0 and sure and not is_pause:
                self._emit(
                    ExecutableRan(sample.run, seconds(duration), seconds(uncertainty // runs), sample.ready)
                )
