"""How many examples and tokens a loop's steps have had, by the user's own count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jaxobs.derive.metrics.series import LARGEST
from jaxobs.derive.refusal import is_amount
from jaxobs.model.figure import Figure, figure

WORDS: Final = ("examples", "tokens")


class Amounts:
    """Totals by word; `refuse` is called with a reason where a value is no valid amount."""

    def __init__(self, loop: str, refuse: Callable[[str], None]) -> None:
        self._loop = loop
        self._refuse = refuse
        self._refused: set[str] = set()
        self.total: dict[str, float | None] = dict.fromkeys(WORDS)

    def take(self, word: str, value: float | None) -> float:
        """Add the user's amount for a step; returns what was added: 0 for NaN, infinity and negative amounts."""
        if value is None:
            return 0.0
        if not is_amount(value):
            self._refused.add(word)
            self._refuse(f"{word}= of loop `{self._loop}`: no finite, positive number")
            return 0.0
        self.total[word] = min((self.total[word] or 0.0) + value, LARGEST)
        return value

    def figure(self, word: str) -> Figure[float]:
        """The total, or why there is none."""
        if word in self._refused:
            reason = (
                f"{word}= raised, or gave no finite, positive number (an array on the device is not read)"
            )
        else:
            reason = f"{word}= was not given"
        return figure(self.total[word], reason)
