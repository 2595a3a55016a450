"""The flat values that the agent sent last, for whoever logs them beside the loss."""

from __future__ import annotations


class LatestValues:
    """`wanted` is read by the sender, which then asks the agent to send them every two seconds."""

    def __init__(self) -> None:
        self.wanted = False
        self._newest: dict[str, float] = {}

    def get(self) -> dict[str, float]:
        """A copy that the caller may change: a few microseconds, and no lock."""
        self.wanted = True
        return self._newest.copy()

    def arrived(self, values: dict[str, float]) -> None:
        """On the sender's thread."""
        self._newest = values
