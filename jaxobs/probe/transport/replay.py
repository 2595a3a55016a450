"""Keeps account of what was sent: what a new agent must be sent again, and what is lost with one that dies.

Used by the sender, on its thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from jaxobs.model.events import (
    BackendFound,
    Event,
    ExecutableCreated,
    FunctionWatched,
    LoopDeclared,
    StepRows,
)

RETAINED_BYTES = 8 * 2**20
"""Most bytes of modules kept for a new agent; the costs of further ones are lost with the agent that has them."""


class Retained:
    """Events that a new agent needs to understand later ones."""

    def __init__(self) -> None:
        self._kept: list[Event] = []
        self._bytes = 0
        self._declared: dict[str | int, Event] = {}  # loops by name, watched functions by number

    def keep(self, events: Iterable[Event | StepRows]) -> int:
        """Keep the events that a new agent must be sent again. Returns how many these are."""
        return sum(map(self._keep, events))

    def _keep(self, event: Event | StepRows) -> bool:
        if isinstance(event, LoopDeclared | FunctionWatched):
            self._declared[event.loop if isinstance(event, LoopDeclared) else event.number] = event
            return True
        if not isinstance(event, BackendFound | ExecutableCreated):
            return False
        size = len(event.proto or b"") if isinstance(event, ExecutableCreated) else 0
        if self._bytes + size > RETAINED_BYTES and isinstance(event, ExecutableCreated):
            event = event._replace(proto=None, proto_reason="lost when the agent was started again")
            size = 0
        self._bytes += size
        self._kept.append(event)
        return True

    def to_another_observer(self) -> Retained:
        """What the agents of a later observer must know too: the executables, which may still run."""
        other = Retained()
        other.keep(self.executables())
        return other

    def events(self) -> list[Event]:
        """The events to send again: backends and executables in their order, then loops and watched functions."""
        return [*self._kept, *self._declared.values()]

    def executables(self) -> list[ExecutableCreated]:
        """The executables so far. May be called from any thread."""
        return [event for event in list(self._kept) if isinstance(event, ExecutableCreated)]


class Unfolded:
    """Frames of events that were sent and that the agent has not acknowledged as folded.

    Their events are lost with the agent if it dies, except those that a new one is sent again.
    """

    def __init__(self) -> None:
        self._frames: deque[int] = deque()
        self.lost = 0
        """Events that were lost with an agent."""

    def handed_over(self, events: int) -> None:
        """Note one frame, with this many events that no new agent would be sent again."""
        self._frames.append(events)

    def folded(self, frames: int) -> None:
        """Note that the agent has folded this many frames, the oldest first."""
        for _ in range(frames):
            self._frames.popleft()

    def agent_died(self) -> None:
        self.lost += sum(self._frames)
        self._frames.clear()
