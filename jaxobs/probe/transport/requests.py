"""Requests to the agent: for snapshots, each valid while its caller waits, and for the newest values."""

from __future__ import annotations

from collections import deque

from jaxobs.flow import wire
from jaxobs.model.clock import NANOSECONDS, now


class LatestValues:
    """The flat values that the agent sent last, to log beside a loss.

    Once `wanted` is true the sender asks the agent to send them every two seconds.
    """

    def __init__(self) -> None:
        self.wanted = False
        self._newest: dict[str, float] = {}

    def get(self) -> dict[str, float]:
        """A copy that the caller may change: a few microseconds, and no lock."""
        self.wanted = True
        return self._newest.copy()

    def arrived(self, values: dict[str, float]) -> None:
        """Take newer values. On the sender's thread."""
        self._newest = values


class Requests:
    """Requests that are not sent yet. Any thread may ask for a snapshot; the sender's thread takes the frames."""

    def __init__(self) -> None:
        self.values = LatestValues()
        self._values_asked_of = 0
        self._snapshots: deque[tuple[int, int]] = deque()

    def __len__(self) -> int:
        return len(self._snapshots)

    def snapshot(self, number: int, timeout: float) -> None:
        """Ask for a snapshot under this number; the caller waits for it `timeout` seconds."""
        self._snapshots.append((number, now() + int(timeout * NANOSECONDS)))

    def frames(self, agent: int, asked: int) -> bytes:
        """Frames for the agent of this number, from 1: of the first `asked` requests those that are still waited for.

        And once one for values if these are wanted.
        """
        frames = []
        if self.values.wanted and self._values_asked_of != agent:
            self._values_asked_of = agent
            frames.append(wire.frame(wire.VALUES, None))
        for _ in range(asked):
            number, until = self._snapshots.popleft()
            if now() < until:
                frames.append(wire.frame(wire.REQUEST, (number, until)))
        return b"".join(frames)
