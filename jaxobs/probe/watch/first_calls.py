"""How long the run of a call took that compiled: from the end of the compile until an output was ready.

Such a call is never one of those that are polled closely, and may be the only one: a training that is one call. It is
asked about once a second, so runs of less than some seconds are not timed here; the calls after it tell of those. Where
another run is seen to end meanwhile, the device was not this one's alone, and its time is not known. (Of what nobody
watches that is not seen. A compile, during which the device gets through what it was given, goes before the run.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jaxobs.model.clock import now, seconds
from jaxobs.model.events import ExecutableRan, RunUnderWay
from jaxobs.plugin.guard import Suppressed
from jaxobs.probe.watch.completions import LONG_RUN, TOLERANCE, Completions
from jaxobs.probe.watch.output_leaf import OutputLeaf
from jaxobs.probe.watch.readiness import is_ready


@dataclass(slots=True)
class FirstCall:
    """`begun`: the end of its compile; `not_ready`: when it was last seen to go on."""

    leaf: Any
    run: int
    begun: int
    not_ready: int


class FirstCalls:
    """One at a time: kept by the thread that calls, asked about by another."""

    def __init__(self, emit: Callable[[Any], None], completions: Completions) -> None:
        self._emit = emit
        self._completions = completions
        self._under_way: FirstCall | None = None

    def keep(self, way: OutputLeaf, result: Any, run: int, compiled: int) -> None:
        """On the calling thread, when the call has returned. Not one that waits for another."""
        with Suppressed(Exception):  # outputs may be anything, or deleted; never into the user's call
            before = self._under_way
            if before is not None and not is_ready(before.leaf):
                return
            leaf = way.take(result)
            if leaf is not None and not is_ready(leaf):
                self._under_way = FirstCall(leaf, run, compiled, now())

    def ask(self) -> None:
        """Once a second, on a thread of ours."""
        call = self._under_way
        if call is None:
            return
        asked = now()
        try:
            if self._completions.latest_ready <= call.begun and not is_ready(call.leaf):
                call.not_ready = asked
                if asked - call.begun >= LONG_RUN:
                    self._emit(RunUnderWay(call.run, call.begun, asked))
                return
            self._tell(call, now())
        except RuntimeError:  # donated or deleted: nobody will know
            pass
        self._under_way = None

    def _tell(self, call: FirstCall, seen: int) -> None:
        """It was ready when it was asked, or another run was seen to end."""
        at, uncertainty = (call.not_ready + seen) // 2, (seen - call.not_ready) // 2
        duration = at - call.begun
        if self._completions.latest_ready <= call.begun and uncertainty <= TOLERANCE * duration:
            self._emit(ExecutableRan(call.run, seconds(duration), seconds(uncertainty), at))
