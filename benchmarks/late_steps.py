"""Rounds of steps under several conditions, compared: how many steps are late, and how late the latest is."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

LATE_SECONDS = 0.002
RESAMPLES = 10_000
LIMITS = (0.0005, 0.001, 0.002, 0.005, 0.010, 0.020)

Interval = tuple[float, float, float]
"""The middle of the rounds' differences and the ends of its 95 % interval (bootstrap over the rounds)."""


@dataclass(frozen=True)
class Turn:
    """How late each step was, s, with and without its waits for a core, and the seconds that the turn took."""

    lateness: list[float]
    without_waits: list[float]
    seconds: float

    @classmethod
    def of(cls, steps: Sequence[tuple[float, float]], usual: float) -> Turn:
        """From each step's seconds and those of them in which its thread waited for a core."""
        return cls(
            [taken - usual for taken, _ in steps],
            [taken - waited - usual for taken, waited in steps],
            sum(taken for taken, _ in steps),
        )

    def late_per_second(self, limit: float = LATE_SECONDS) -> float:
        """Steps later than that, a second."""
        return sum(each > limit for each in self.lateness) / self.seconds


Round = dict[str, Turn]
"""Turns by their condition."""


def more_late_steps(rounds: Sequence[Round], condition: str, than: str) -> Interval:
    """How many more steps a second are more than LATE_SECONDS late, on average."""
    return _interval(
        [turns[condition].late_per_second() - turns[than].late_per_second() for turns in rounds],
        statistics.fmean,
    )


def later_latest_step(
    rounds: Sequence[Round], condition: str, than: str, *, without_waits: bool = False
) -> Interval:
    """How much later a turn's latest step is, in the median of the rounds."""

    def latest(turn: Turn) -> float:
        return max(turn.without_waits if without_waits else turn.lateness)

    return _interval([latest(turns[condition]) - latest(turns[than]) for turns in rounds], statistics.median)


def print_distributions(rounds: Sequence[Round]) -> None:
    """Late steps a second of each condition, by how late."""
    print("steps a second late by more than" + "".join(f"{limit * 1e3:6g} ms" for limit in LIMITS))
    for condition in rounds[0]:
        seconds = sum(turns[condition].seconds for turns in rounds)
        counts = (
            sum(turns[condition].late_per_second(limit) * turns[condition].seconds for turns in rounds)
            / seconds
            for limit in LIMITS
        )
        print(f"  {condition:30}" + "".join(f"{count:9.2f}" for count in counts))


def print_difference(rounds: Sequence[Round], cause: str, condition: str, than: str) -> None:
    """Both comparisons in a line."""
    late = more_late_steps(rounds, condition, than)
    latest = _milliseconds(later_latest_step(rounds, condition, than))
    running = _milliseconds(later_latest_step(rounds, condition, than, without_waits=True))
    print(
        f"because of the {cause}: {late[0]:+.2f} ({late[1]:+.2f} to {late[2]:+.2f}) steps a second more than "
        f"{LATE_SECONDS * 1e3:g} ms late; the latest step {latest} ms, its waits for a core left out {running} ms"
    )


def _milliseconds(interval: Interval) -> str:
    middle, low, high = (value * 1e3 for value in interval)
    return f"{middle:+.2f} ({low:+.2f} to {high:+.2f})"


def _interval(differences: Sequence[float], middle: Callable[[Sequence[float]], float]) -> Interval:
    chance = random.Random(0)
    found = sorted(middle(chance.choices(differences, k=len(differences))) for _ in range(RESAMPLES))
    return middle(differences), found[int(0.025 * RESAMPLES)], found[int(0.975 * RESAMPLES)]
