"""How long the run of a call took that compiled: from the end of the compile until an output was ready.

Such a call is never one of those that are sampled, and may be the only one: a training that is one call. The polling
thread asks about it while it has no sample to look at; where it has, it is asked about once a second. Where another run
is seen to end meanwhile, the device was not this one's alone, and its time is not known. (Of what nobody watches that is
not seen. A compile, during which the device gets through what it was given, goes before the run.)
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jaxobs.model.clock import NANOSECONDS, now, seconds
from jaxobs.model.events import ExecutableRan, RunUnderWay
from jaxobs.plugin.guard import Suppressed
from jaxobs.probe.watch.polling.completions import LONG_RUN, POLL_SHARE, SHORTEST_POLL, TOLERANCE, Completions
from jaxobs.probe.watch.polling.output_leaf import OutputLeaf
from jaxobs.probe.watch.polling.readiness import is_ready

LONGEST_PAUSE = 1.0
"""Seconds between two questions about a run that has lasted for half a minute or more: a relative error of 3 %."""


SHORTEST_TOLD = 0.5
"""Seconds of a run that is told. A first run is cold: memory is touched for the first time, threads and what is compiled
next take the processors. One of 0.5 ms was seen to take 33 ms, one of 5 ms 112 ms; and what is short is called again."""


@dataclass(slots=True)
class FirstCall:
    """`begun`: the end of its compile; `returned`: the end of the call; `not_ready`: when it was last seen to go on."""

    leaf: Any
    run: int
    begun: int
    returned: int
    not_ready: int
    reported: int


class FirstCalls:
    """One at a time: kept by the thread that calls, asked about by two others, of which one does at a time."""

    def __init__(self, emit: Callable[[Any], None], completions: Completions) -> None:
        self._emit = emit
        self._completions = completions
        self._under_way: FirstCall | None = None
        self._asking = threading.Lock()
        completions.without_samples = self.ask

    def keep(self, way: OutputLeaf, result: Any, run: int, compiled: int) -> None:
        """On the calling thread, when the call has returned. Not one that waits for another."""
        with Suppressed(Exception):  # outputs may be anything, or deleted; never into the user's call
            before = self._under_way
            if before is not None and not is_ready(before.leaf):
                return
            leaf = way.take(result)
            if leaf is not None and not is_ready(leaf):
                returned = now()
                self._under_way = FirstCall(leaf, run, compiled, returned, returned, compiled)
                self._completions.wake()

    def ask(self) -> float | None:
        """On a thread of ours. Seconds after which to ask again; None where there is nothing to ask about."""
        if not self._asking.acquire(blocking=False):
            return LONGEST_PAUSE
        try:
            call = self._under_way
            if call is None:
                return None
            if self._goes_on(call):
                waited = seconds(call.not_ready - call.begun)
                return min(LONGEST_PAUSE, max(SHORTEST_POLL, POLL_SHARE * waited))
            self._under_way = None
            return None
        finally:
            self._asking.release()

    def _goes_on(self, call: FirstCall) -> bool:
        asked = now()
        try:
            if self._completions.latest_ready <= call.begun and not is_ready(call.leaf):
                call.not_ready = asked
                if asked - call.begun >= LONG_RUN and asked - call.reported >= NANOSECONDS:
                    call.reported = asked
                    self._emit(RunUnderWay(call.run, call.begun, asked))
                return True
            self._tell(call, now())
        except RuntimeError:  # donated or deleted: nobody will know
            pass
        return False

    def _tell(self, call: FirstCall, seen: int) -> None:
        """It was ready when it was asked, or another run was seen to end.

        The run began at some time between the end of the compile and the end of the call, whose arguments were placed in
        between.
        """
        least, most = call.not_ready - call.returned, seen - call.begun
        duration, uncertainty = (least + most) // 2, (most - least) // 2
        if duration < SHORTEST_TOLD * NANOSECONDS:
            return
        if self._completions.latest_ready <= call.begun and uncertainty <= TOLERANCE * duration:
            self._emit(ExecutableRan(call.run, seconds(duration), seconds(uncertainty), seen))
