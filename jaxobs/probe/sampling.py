"""The thread on which probes are sampled one after the other; where a probe hangs, a new thread takes over."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from jaxobs.flow.wake_up import Call
from jaxobs.model.clock import monotonic, thread_time

TURN_SECONDS = 0.05
"""Most seconds to wait for a turn to end, so that its samples go to the agent at once. A turn takes 0.3 ms."""

Sample = Callable[[], None]

STUCK_SECONDS = 5.0
"""Seconds after which a probe that has not returned is reported as not up, until it returns."""


class Sampling:
    """Runs the functions that `samples` returns, in turns. They may change from turn to turn and must not raise.

    `turn` is called by one thread, about once a second.
    """

    def __init__(self, samples: Callable[[], Sequence[Sample]]) -> None:
        self._samples = samples
        self._hanging: set[Sample] = set()
        self._cpu_before = 0.0
        self._turns: _Turns | None = None
        self._stopped = False

    def turn(self) -> None:
        """Begin a turn, which calls each function that does not hang in an earlier call, and wait for it a little."""
        turns = self._turns
        if turns is not None and turns.under_way:
            if monotonic() - turns.since < STUCK_SECONDS:
                return
            turns.replaced = True
            self._cpu_before += turns.cpu_seconds
            self._turns = turns = None
        if turns is None:
            turns = _Turns(self._samples, self._hanging)
            try:
                turns.start()
            except RuntimeError:  # no thread can be started: tried again at the next turn
                return
            self._turns = turns
        turns.begin()
        if self._stopped:
            turns.end()
        turns.done.wait(TURN_SECONDS)

    @property
    def cpu_seconds(self) -> float:
        return self._cpu_before + (self._turns.cpu_seconds if self._turns is not None else 0.0)

    @property
    def thread(self) -> threading.Thread | None:
        return self._turns

    def stop(self) -> None:
        """Let the thread end after the turn under way; `thread` can then be joined."""
        self._stopped = True
        if self._turns is not None:
            self._turns.end()


class _Turns(threading.Thread):
    """One sampling thread. `hanging` holds the functions from which some thread has not returned."""

    def __init__(self, samples: Callable[[], Sequence[Sample]], hanging: set[Sample]) -> None:
        super().__init__(name="jaxobs-sampling", daemon=True)
        self._samples = samples
        self._hanging = hanging
        self._wanted = Call()
        self._ending = False
        self.done = threading.Event()
        self.under_way = False
        self.since = 0.0
        self.replaced = False
        self.cpu_seconds = 0.0

    def begin(self) -> None:
        self.done.clear()
        self.since = monotonic()
        self.under_way = True
        self._wanted.make()

    def end(self) -> None:
        """Let the thread end, after the turn under way."""
        self._ending = True
        self._wanted.make()

    def run(self) -> None:
        while not self.replaced and self._wanted.wait() and not self._ending:
            for sample in self._samples():
                if sample in self._hanging:
                    continue
                self._hanging.add(sample)
                self.since = monotonic()
                sample()
                self._hanging.discard(sample)
                if self.replaced:
                    return
            self.cpu_seconds = thread_time()
            self.under_way = False
            self.done.set()
