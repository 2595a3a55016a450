"""How long the run of a call took that compiled: from the end of the compile until an output was ready.

Such a call is never one of those that are polled closely, and may be the only one: a training that is one call. It is
asked about once a second, so runs of less than some seconds are not timed here; the calls after it tell of those.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jaxobs.model.clock import now, seconds
from jaxobs.model.events import ExecutableRan
from jaxobs.plugin.guard import raised_by_signal_handler
from jaxobs.probe.watch.completions import TOLERANCE, OutputLeaf
from jaxobs.probe.watch.readiness import is_ready

REMEMBERED = 8
"""First calls under way at a time; of more the oldest are let go of, and their outputs with them."""


@dataclass(slots=True)
class FirstCall:
    """`begun`: the end of its compile; `not_ready`: when it was last seen to go on."""

    leaf: Any
    run: int
    begun: int
    not_ready: int


class FirstCalls:
    """Kept by the thread that calls, asked about by another."""

    def __init__(self, emit: Callable[[Any], None]) -> None:
        self._emit = emit
        self._under_way: deque[FirstCall] = deque(maxlen=REMEMBERED)

    def keep(self, way: OutputLeaf, result: Any, run: int, compiled: int) -> None:
        """On the calling thread, when the call has returned."""
        try:
            leaf = way.take(result)
            if leaf is not None and not is_ready(leaf):
                self._under_way.append(FirstCall(leaf, run, compiled, now()))
        except Exception as error:  # outputs may be anything, or deleted; never into the user's call
            if raised_by_signal_handler(error):
                raise

    def ask(self) -> None:
        """Once a second, on a thread of ours."""
        for _ in range(len(self._under_way)):
            call = self._under_way.popleft()
            asked = now()
            try:
                ready = is_ready(call.leaf)
            except RuntimeError:  # donated or deleted: nobody will know
                continue
            if not ready:
                call.not_ready = asked
                self._under_way.append(call)
                continue
            at, uncertainty = (call.not_ready + now()) // 2, (now() - call.not_ready) // 2
            duration = at - call.begun
            if uncertainty <= TOLERANCE * duration:
                self._emit(ExecutableRan(call.run, seconds(duration), seconds(uncertainty), at))
