"""Times the run of a call that compiled: from the end of the compile until an output was ready.

Such a call is never sampled, and may be the only one: a training that is one call. The polling thread asks about it
while it has no sample; while it has one, another thread asks once a second. Where another run is seen to end meanwhile,
the device was shared, and the time of this run is not known. (Runs of functions that are not watched are not seen. But
the compile comes before the run, and during it the device works off what was dispatched earlier.)
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jaxobs.jax_compat.arrays import is_ready
from jaxobs.model.clock import NANOSECONDS, now, seconds
from jaxobs.model.events import ExecutableRan, RunUnderWay
from jaxobs.plugin.guard import Suppressed
from jaxobs.probe.watch.polling.completions import LONG_RUN, POLL_SHARE, SHORTEST_POLL, TOLERANCE, Completions
from jaxobs.probe.watch.polling.output_leaf import OutputLeaf

LONGEST_PAUSE = 1.0
"""Most seconds between two questions, reached by a run that has lasted for half a minute: a relative error of 3 %."""


SHORTEST_TOLD = 0.5
"""Seconds of the shortest first run that is reported. A first run is cold: memory is touched for the first time, and
other threads and the next compile take the processors. One of 0.5 ms was seen to take 33 ms, one of 5 ms 112 ms; and
short functions are called again, so later runs can be sampled."""


@dataclass(slots=True)
class FirstCall:
    """A call that compiled, and its run. All times are by `now()`.

    `leaf`: an output or a weak reference to one, None once the run is not followed any more; `begun`: the end of its
    compile; `returned`: the end of the call; `not_ready`: when it was last seen to be unfinished; `reported`: when its
    last `RunUnderWay` was emitted.
    """

    leaf: Any
    run: int
    begun: int
    returned: int
    not_ready: int
    reported: int


class FirstCalls:
    """Follows one first call at a time. The calling thread sets it; two other threads ask about it, in turns."""

    def __init__(self, emit: Callable[[Any], None], completions: Completions) -> None:
        self._emit = emit
        self._completions = completions
        self._under_way: FirstCall | None = None
        self._ended = False
        self._asking = threading.Lock()
        completions.without_samples = self.ask
        completions.first_call_keeps_output = self._keeps_output

    def keep(self, way: OutputLeaf, result: Any, run: int, compiled: int) -> None:
        """Follow this call, unless another is still under way. On the calling thread, when the call has returned."""
        with Suppressed(Exception):  # outputs may be anything, or deleted; never into the user's call
            before = self._under_way
            if before is not None and _is_unfinished(before.leaf):
                return
            leaf = way.take(result)
            if leaf is not None and not is_ready(leaf):
                returned = now()
                if self._completions.keeps_output and type(leaf) is not weakref.ref:
                    leaf = weakref.ref(leaf)  # one at a time is kept
                self._under_way = FirstCall(leaf, run, compiled, returned, returned, compiled)
                self._completions.wake()
                if self._ended:  # meanwhile, on another thread
                    self._under_way = None

    def _keeps_output(self) -> bool:
        call = self._under_way
        return call is not None and call.leaf is not None and type(call.leaf) is not weakref.ref

    def ask(self) -> float | None:
        """Ask whether the run has ended. Returns the seconds until the next question, None where no run is followed.

        Called on threads of jaxobs.
        """
        if not self._asking.acquire(blocking=False):
            return LONGEST_PAUSE
        try:
            call = self._under_way
            if call is None or call.leaf is None:
                return None
            if self._goes_on(call):
                waited = seconds(call.not_ready - call.begun)
                return min(LONGEST_PAUSE, max(SHORTEST_POLL, POLL_SHARE * waited))
            # Not `_under_way`, in which the calling thread may have put a newer call meanwhile.
            call.leaf = None
            return None
        finally:
            self._asking.release()

    def let_go(self) -> None:
        """Follow no run any more, and hold no array of the job's."""
        self._ended, self._under_way = True, None

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
        except RuntimeError:  # donated or deleted: its end cannot be known any more
            pass
        return False

    def _tell(self, call: FirstCall, seen: int) -> None:
        """Report the run if its time is known. `seen`: when its leaf was ready, or another run was seen to have ended.

        The run began between the end of the compile and the end of the call: arguments are placed in between.
        """
        least, most = call.not_ready - call.returned, seen - call.begun
        duration, uncertainty = (least + most) // 2, (most - least) // 2
        if duration < SHORTEST_TOLD * NANOSECONDS:
            return
        if self._completions.latest_ready <= call.begun and uncertainty <= TOLERANCE * duration:
            self._emit(ExecutableRan(call.run, seconds(duration), seconds(uncertainty), seen))


def _is_unfinished(leaf: Any) -> bool:
    """Whether an output's run is not over yet. One that was donated or deleted is of no use any more."""
    try:
        return leaf is not None and not is_ready(leaf)
    except RuntimeError:
        return False
