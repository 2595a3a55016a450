"""How much longer a job's steps took around a moment than they usually take: the arithmetic of the study."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from benchmarks.paired import Interval, bootstrap

BLOCK = 0.25
"""Seconds. The usual pace is that of blocks so long, the mean of their middle half: a hiccup of the machine falls out."""

READING, BESIDE = 2.0, 2.0
"""Seconds: for the agent to read a trace, and to know the usual pace from."""

TRIMMED = 0.1
"""Of windows and of placebos, at either end: a machine that stands still for half a second does so anywhere."""


class Turns(NamedTuple):
    """When how many steps had ended: two arrays of the same length, both increasing; seconds and steps."""

    times: Any
    steps: Any

    def done(self, at: Any) -> Any:
        """Steps done at `at`, parts of steps too."""
        return np.interp(at, self.times, self.steps)


def studied(told: dict[str, Any]) -> tuple[list[float], list[float], list[list[float]]]:
    """The excess of each window of a run and of its placebos, and the windows themselves."""
    turns = Turns(told["times"], told["steps"])
    begun, ended = told["times"][0] + BESIDE, told["times"][-1] - BESIDE
    spans = [span for span in told["spans"] if span[0] >= begun and span[1] + READING <= ended]
    effects = [(began, handed + READING) for began, handed, *_ in spans]
    if not effects:
        return [], [], []
    length = statistics.median(end - begin for begin, end in effects)
    around = [(begun, begun), *effects, (ended, ended)]
    without = [excess(turns, at, at + length, BESIDE) for at in placebos(around, length, BESIDE)]
    return [excess(turns, begin, end, BESIDE) for begin, end in effects], without, spans


def excess(turns: Turns, begin: float, end: float, beside: float) -> float:
    """Seconds of `begin` to `end` beyond what its steps would have taken at the pace of `beside` seconds on either side.

    Negative where they were faster. Not a number where nothing ran beside.
    """
    paces: list[float] = []
    for first in (begin - beside, end):
        edges = np.arange(first, first + beside + BLOCK / 2, BLOCK)
        done = np.diff(turns.done(edges))
        paces += [BLOCK / steps for steps in done if steps > 0]
    if not paces:
        return float("nan")
    paces.sort()
    cut = len(paces) // 4
    usual = float(np.mean(paces[cut : len(paces) - cut]))
    return float((end - begin) - (turns.done(end) - turns.done(begin)) * usual)


def placebos(spans: Sequence[tuple[float, float]], length: float, beside: float) -> list[float]:
    """Beginnings of stretches of `length` with `beside` seconds on either side that no span touches."""
    found = []
    for (_, ended), (begins, _) in pairwise(spans):
        first = ended + beside
        while first + length + beside <= begins:
            found.append(first)
            first += length + beside
    return found


def difference(windows: Sequence[float], without: Sequence[float]) -> Interval:
    """Trimmed mean of the one less that of the other."""
    return bootstrap(lambda one, other: trimmed_mean(one) - trimmed_mean(other), windows, without)


def trimmed_mean(values: Any) -> Any:
    """Along the last axis, without the largest and the smallest tenth."""
    ordered = np.sort(np.asarray(values), axis=-1)
    cut = round(TRIMMED * ordered.shape[-1])
    return ordered[..., cut : ordered.shape[-1] - cut].mean(axis=-1)
