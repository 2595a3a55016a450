"""How much time may be spent on something, at once and in the long run."""

from __future__ import annotations

from jaxobs.model.clock import perf_counter_ns


class Allowance:
    """Nanoseconds that may be spent: `burst` at once, and a share of the time that passes."""

    def __init__(self, burst: int, share: float) -> None:
        self._burst, self._share = burst, share
        self._left = float(burst)
        self._since = perf_counter_ns()

    def spend(self, nanoseconds: int) -> bool:
        """Whether there was as much."""
        now = perf_counter_ns()
        self._left = min(self._burst, self._left + self._share * (now - self._since)) - nanoseconds
        self._since = now
        return self._left >= 0
