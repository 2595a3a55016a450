"""What was sent to the agents: what a new one must be sent again, and what is lost with one that dies.

For the sender, on its thread.
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
"""Modules kept for an agent that had to be started again; beyond it their costs are lost with the agent."""


class Retained:
    """Events without which a new agent would not know what the later ones speak of."""

    def __init__(self) -> None:
        self._kept: list[Event] = []
        self._bytes = 0
        self._declared: dict[str | int, Event] = {}  # loops by name, watched functions by number

    def keep(self, events: Iterable[Event | StepRows]) -> int:
        """Keep those that a new agent is sent again. Returns how many these are."""
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
        """What its agents must know too: the executables that are there."""
        other = Retained()
        other.keep(self.executables())
        return other

    def events(self) -> list[Event]:
        """In the order in which they were."""
        return [*self._kept, *self._declared.values()]

    def executables(self) -> list[ExecutableCreated]:
        """From any thread."""
        return [event for event in list(self._kept) if isinstance(event, ExecutableCreated)]


class Unfolded:
    """Frames of events that were handed over and that the agent has not said to have folded.

    What is in them is lost with the agent if it dies, but for what a new one is sent again.
    """

    def __init__(self) -> None:
        self._frames: deque[int] = deque()
        self.lost = 0
        """Events that were lost with an agent."""

    def handed_over(self, events: int) -> None:
        """One frame, with so many events that no new agent would be sent again."""
        self._frames.append(events)

    def folded(self, frames: int) -> None:
        """The agent says so of the oldest."""
        for _ in range(frames):
            self._frames.popleft()

    def agent_died(self) -> None:
        self.lost += sum(self._frames)
        self._frames.clear()
