"""What happens next, by chance, and each thing often enough."""

from __future__ import annotations

import random
from collections.abc import Sequence


class Bag:
    """Draws words in any order, but none again before each has come.

    So everything has happened once before growth is measured, and what is made once at its first time is no growth.
    """

    def __init__(self, chance: random.Random, words: Sequence[str]) -> None:
        self._chance = chance
        self._words = words
        self._left: list[str] = []

    def draw(self) -> str:
        self._left = self._left or self._chance.sample(self._words, len(self._words))
        return self._left.pop()
