"""What the programs of this folder share. Each is a function that trains and returns its truth, by its own clock.

python queues.py epochs 512 30 20
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

Turn = TypeVar("Turn")

_observers: list[Any] = []


def observer() -> Any:
    """The observer of a program that calls jaxobs itself."""
    import jaxobs

    _observers.append(jaxobs.instrument())
    return _observers[-1]


def tell(truth: Mapping[str, Any]) -> None:
    """Print a truth, and when it was told; the last one counts."""
    print(json.dumps({"truth": {**truth, "told": time.time()}}), flush=True)


def main(*programs: Callable[..., Mapping[str, Any]]) -> None:
    """Run the one that the command line names, with the arguments behind its name."""
    name, *arguments = sys.argv[1:]
    truth = {program.__name__: program for program in programs}[name](*arguments)
    if _observers:
        time.sleep(2)  # the last steps are told about once a second
    tell(truth)


class Clock:
    """The program's own clock of its steps."""

    def over(self, turns: Iterable[Turn]) -> Iterator[Turn]:
        """The same turns, timed."""
        self.times: list[float] = []
        self._began = ended = time.perf_counter()
        for turn in turns:
            yield turn
            began, ended = ended, time.perf_counter()
            self.times.append(ended - began)

    @property
    def step_seconds(self) -> float:
        """What a step took, on average until now."""
        return (time.perf_counter() - self._began) / len(self.times)


def until(seconds: float) -> Iterator[int]:
    """The numbers of steps, until the time is up."""
    end, number = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        yield number
        number += 1


def timed_in_turn(calls: Mapping[str, Callable[[], object]], seconds: float) -> dict[str, list[float]]:
    """What each call takes, one after the other and over and over, with the wait for what it makes."""
    import jax

    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in until(seconds):
        for name, call in calls.items():
            began = time.perf_counter()
            jax.block_until_ready(call())
            times[name].append(time.perf_counter() - began)
    return times


def work_in_python(seconds: float) -> None:
    """Keep the host busy."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def asleep(seconds: float) -> None:
    """A call that blocks the host."""
    time.sleep(seconds)
