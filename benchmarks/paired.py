"""Things that are measured in turns, and medians of the pairs with the interval that their noise leaves."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

RESAMPLES = 10_000

Name = TypeVar("Name", bound=Hashable)
Found = TypeVar("Found")


class Interval(NamedTuple):
    """A median, or a mean, and its 95 % interval."""

    middle: float
    low: float
    high: float


def median(values: Sequence[float]) -> Interval:
    """The interval is the bootstrap's, over the values."""
    return bootstrap(partial(np.median, axis=-1), values)


def mean(values: Sequence[float]) -> Interval:
    """Likewise. For what is done rarely and counts all the same, which a median does not see."""
    return bootstrap(partial(np.mean, axis=-1), values)


def bootstrap(statistic: Callable[..., Any], *samples: Sequence[float]) -> Interval:
    """A statistic of samples, which reduces their last axis, and its interval: each is drawn from with replacement."""
    chance, found = np.random.default_rng(0), [np.asarray(values, float) for values in samples]
    drawn = [each[chance.integers(len(each), size=(RESAMPLES, len(each)))] for each in found]
    low, high = np.quantile(statistic(*drawn), (0.025, 0.975))
    return Interval(float(statistic(*found)), float(low), float(high))


def paired_ratio(of: Sequence[float], to: Sequence[float]) -> Interval:
    """`of` over `to`, round by round."""
    return median([one / other for one, other in zip(of, to, strict=True)])


def paired_difference(of: Sequence[float], less: Sequence[float]) -> Interval:
    """`of` less `less`, round by round."""
    return median([one - other for one, other in zip(of, less, strict=True)])


def seconds_of(work: Callable[[], object]) -> float:
    """What a call takes; letting go of what it made is no part of it."""
    began = time.perf_counter()
    made = work()
    took = time.perf_counter() - began
    del made
    return took


def take_turns(timed: Mapping[Name, Callable[[], Found]], rounds: int) -> dict[Name, list[Found]]:
    """What each said in each round; every round has another order."""
    chance = random.Random(0)
    found: dict[Name, list[Found]] = {name: [] for name in timed}
    for _ in range(rounds):
        for name in chance.sample(list(timed), len(timed)):
            found[name].append(timed[name]())
    return found
