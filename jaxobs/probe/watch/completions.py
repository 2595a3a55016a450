"""When the device finished: by polling one output of a few calls, from a thread that sleeps in Python.

The training thread never waits. A call that is sampled keeps one output leaf; this thread asks it `is_ready()`. (A
thread that sits in `block_until_ready()` at interpreter exit aborts the process; one that sleeps does not.) Two kinds of
facts come out: when a step's work was done, for the spacing of steps, and how long a run kept the device: from the
later of its own start and the end of the run before it, to its end.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jaxobs.model.clock import NANOSECONDS, now, seconds, thread_time
from jaxobs.model.events import UNMARKED, ExecutableRan, RunUnderWay, StepCompleted
from jaxobs.plugin.guard import Suppressed, raised_by_signal_handler
from jaxobs.probe.watch.output_leaf import BURST, OutputLeaf
from jaxobs.probe.watch.readiness import is_ready

EVERY_BURST = 10
"""Once an executable has its first samples, only every tenth looks at runs; the others at one completion: 20 wake-ups a
second cost a 0.75 ms loop 1.1 %, two cost nothing that could be measured."""

FIRST_SAMPLES = 12
"""Runs of an executable that are looked at as soon as possible: without any, its loop's time is unknown.
Counted whether or not they could be timed: what is too short for polling is not polled closely for ever."""

GOLDEN_RATIO = 0.618034
"""Pauses between rounds are up to twice the interval, and multiples of this, the whole numbers taken off: no phase comes
back. A host that dispatches an epoch ahead, waits and evaluates, once a second, was always met in its evaluation."""

POLL_SHARE = 0.03
"""Spacing of polls as a share of the wait so far: the relative error is the same for a step of 1 ms or of a minute."""

SLEPT_THROUGH = 0.6
"""Share of the shortest latency of late that is slept through without polling."""

SHORTEST_POLL, LONGEST_POLL = 0.0002, 0.05

TOLERANCE = 0.15
"""A run whose duration is not known to within this share is not reported."""

SURE_SPACING = 0.05
"""Of the time between the first and the last end of a burst: what both may be off by for the steps between to be told."""

LATENCIES_KEPT = 1_000
"""Executables, twice each, whose latencies are known: one that is compiled again is another. What is forgotten is polled
from the first moment on, once."""

LONG_RUN = 2 * NANOSECONDS
"""A run that has lasted this long is told of while it lasts: it may be a whole training."""

PATIENCE = 600.0
"""Seconds after which a sample is given up: a device that does not finish shows as steps that do not end."""


@dataclass(slots=True)
class Sample:
    """One call that is being looked at. `idle_before`: the call before it had finished when this one began.

    `behind_unseen`: between the two a call was made of which no output can be looked at, so it may have waited for that.
    """

    way: OutputLeaf
    leaf: Any
    run: int
    loop: str
    step: int
    started: int
    ended: int
    idle_before: bool
    behind_unseen: bool = False
    ready: int | None = None
    uncertainty: int = 0


class Completions:
    """`armed` is what the hot path looks at; everything else happens in sampled calls or on the polling thread."""

    def __init__(self, emit: Callable[[Any], None], interval: float) -> None:
        self.armed = False
        self._emit = emit
        self._interval = interval
        self._stop = threading.Event()
        # No Event: its lock is taken in Python, and stays taken where a signal handler of the user's raises just then.
        self._arrived: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._samples: list[Sample] = []
        self._thread_of_samples = 0
        self._wanted = 1
        self._idle = True
        self._unseen = False
        self._latencies: dict[tuple[int, bool], deque[float]] = {}
        self._rounds = 0
        self._looked_at: Counter[int] = Counter()
        self._latest_run = 0
        self.latest_ready = 0
        """When an output was last seen to be ready, by `now()`."""
        self.cpu_seconds = 0.0
        self.without_samples: Callable[[], float | None] = lambda: None
        """What the polling thread does until there is a sample to look at, and after how many seconds again."""

    def wake(self) -> None:
        """There is something to do `without_samples`."""
        self._arrived.put(None)

    def before_call(self, way: OutputLeaf) -> bool:
        """On the training thread, while calls are sampled: whether this one is, which has an output to look at."""
        if way.exhausted:
            self._unseen = True
            return False
        samples = self._samples  # read once: the polling thread may begin a new list at any time
        if not samples:
            return True
        previous = samples[-1]
        self._idle = False
        with Suppressed(Exception):  # donated meanwhile, or no array of JAX's; never into the user's call
            self._idle = previous.ready is not None or is_ready(previous.leaf)
        return True

    def after_call(
        self, way: OutputLeaf, result: Any, run: int, loop: str, step: int, started: int, ended: int
    ) -> None:
        """On the training thread, in sampled calls only: keep the leaf, disarm when there are enough."""
        try:
            leaf = way.take(result)
            if leaf is None:
                self._unseen = True
            if leaf is None or len(self._samples) >= self._wanted:
                return
            thread = threading.get_ident()
            if self._samples and thread != self._thread_of_samples:
                return
            self._thread_of_samples = thread
            idle_before, unseen, self._unseen = self._idle and bool(self._samples), self._unseen, False
            sample = Sample(way, leaf, run, loop, step, started, ended, idle_before, unseen)
            if is_ready(leaf):  # the backend ran it within the call
                sample.ready = ended
            self._samples.append(sample)
            if (
                run not in self._looked_at
            ):  # seen for the first time: then all of it, which may not come again soon
                self._wanted = BURST
            if len(self._samples) >= self._wanted:
                self.armed = False
            self._arrived.put(None)
        except Exception as error:  # outputs may be anything, or deleted; never into the user's call
            if raised_by_signal_handler(error):
                raise
            way.died()

    def run(self) -> None:
        """The polling thread's life."""
        phase = 0.5
        while not self._stop.wait(2 * phase * self._interval):
            self._round()
            phase = (phase + GOLDEN_RATIO) % 1.0
            self.cpu_seconds = thread_time()

    def stop(self) -> None:
        self.armed = False
        self._stop.set()
        self.wake()

    def _round(self) -> None:
        burst = self._looked_at[self._latest_run] < FIRST_SAMPLES or self._rounds % EVERY_BURST == 0
        self._samples = []
        self._wanted = BURST if burst else 1
        self._idle, self._unseen = True, False
        self._forget_arrivals()
        self.armed = True
        position = 0
        while position < self._wanted and not self._stop.is_set():
            if position >= len(self._samples):
                try:
                    self._arrived.get(timeout=1.0 if position else self.without_samples())
                except queue.Empty:
                    if position:
                        break  # the loop has paused; what there is must do
                continue
            if position == 0:
                self.without_samples()  # once more: what it waits for may have ended just before this call began
            sample = self._samples[position]
            if not self._await(sample, self._samples[position - 1] if position else None):
                break
            sample.way.measure(sample.leaf)
            sample.leaf = None
            position += 1
        self.armed = False
        done = self._samples[:position]
        self._samples = []
        if done:
            self._rounds += 1
            self._report(done, burst=len(done) > 1)

    def _forget_arrivals(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._arrived.get_nowait()

    def _await(self, sample: Sample, before: Sample | None) -> bool:
        """Poll until the leaf is ready. False where it died or patience ended."""
        begun = sample.started
        if before is not None and before.ready is not None and not sample.idle_before:
            begun = max(begun, before.ready)
        next_report = begun + LONG_RUN
        latencies = self._latencies.setdefault((sample.run, before is not None), deque(maxlen=5))
        if len(self._latencies) > LATENCIES_KEPT:
            del self._latencies[next(iter(self._latencies))]
        ahead = SLEPT_THROUGH * min(latencies, default=0.0) - seconds(now() - begun)
        # Runs end in the order in which they were dispatched: this one was not ready before the one before it.
        last_not_ready = (
            max(sample.ended, before.ready) if before is not None and before.ready else sample.ended
        )
        try:
            if sample.ready is None and ahead > SHORTEST_POLL:
                self._stop.wait(ahead)
            while sample.ready is None:
                asked = now()
                if is_ready(sample.leaf):
                    ready = now()
                    sample.ready = (last_not_ready + ready) // 2
                    sample.uncertainty = (ready - last_not_ready) // 2
                    break
                last_not_ready = asked
                if asked >= next_report:
                    next_report = asked + NANOSECONDS
                    self._emit(RunUnderWay(sample.run, begun, asked))
                waited = seconds(asked - begun)
                if waited > PATIENCE or self._stop.is_set():
                    return False
                self._stop.wait(min(LONGEST_POLL, max(SHORTEST_POLL, POLL_SHARE * waited)))
        except RuntimeError:  # "Array has been deleted"
            sample.way.died()
            return False
        self.latest_ready = sample.ready
        latencies.append(seconds(max(0, sample.ready - begun)))
        return True

    def _report(self, done: list[Sample], *, burst: bool) -> None:
        last = done[-1]
        assert last.ready is not None
        for sample in _completions(done):
            if sample.loop or sample.step:  # else it is no step, and no call that is told by itself
                assert sample.ready is not None
                self._emit(StepCompleted(sample.loop, sample.step, sample.ready, sample.uncertainty))
        self._latest_run = last.run
        for index, sample in enumerate(done):
            assert sample.ready is not None
            if index == 0:
                continue
            self._looked_at[sample.run] += burst
            before = done[index - 1]
            assert before.ready is not None
            begin = sample.started if sample.idle_before else max(sample.started, before.ready)
            uncertainty = sample.uncertainty + (0 if begin == sample.started else before.uncertainty)
            duration = sample.ready - begin
            if sample.behind_unseen:
                continue
            if burst and duration > 0 and uncertainty <= TOLERANCE * duration:
                self._emit(ExecutableRan(sample.run, seconds(duration), seconds(uncertainty), sample.ready))


def _completions(done: list[Sample]) -> list[Sample]:
    """Those of a burst whose ends are told, in their order.

    Of calls that are told one by one it is not known here which function's are the steps: the last of each.
    """
    chosen = {sample.run: sample for sample in done} if done[-1].loop == UNMARKED else {0: done[-1]}
    first = _spaced_from(done)
    return [sample for sample in done if sample is first or any(sample is last for last in chosen.values())]


def _spaced_from(done: list[Sample]) -> Sample | None:
    """The first sample from which on each is the next step of one executable, if both ends are known well.

    So the time of long steps is known from one burst, of a loop too in which something else lies between any two bursts.
    """
    last = done[-1]
    assert last.ready is not None
    for at, first in enumerate(done[:-1]):
        assert first.ready is not None
        row = done[at:]
        alike = all((sample.run, sample.loop) == (last.run, last.loop) for sample in row)
        sure = first.uncertainty + last.uncertainty <= SURE_SPACING * (last.ready - first.ready)
        if alike and sure and last.step - first.step == len(row) - 1:
            return first
    return None
