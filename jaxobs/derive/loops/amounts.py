"""How many examples and tokens the steps of a loop were said to have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jaxobs.derive.metrics.series import LARGEST
from jaxobs.derive.refusal import is_amount
from jaxobs.model.figure import Figure, figure

WORDS: Final = ("examples", "tokens")


class Amounts:
    """Totals by word; `refuse` is called where an amount is none."""

    def __init__(self, loop: str, refuse: Callable[[str], None]) -> None:
        self._loop = loop
        self._refuse = refuse
        self._refused: set[str] = set()
        self.total: dict[str, float | None] = dict.fromkeys(WORDS)

    def take(self, word: str, value: float | None) -> float:
        """Add what the user said of a step, and give what of it counts; NaN, infinity and negative amounts do not."""
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
