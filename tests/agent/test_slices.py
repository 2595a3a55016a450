"""The agent works in short slices, except where somebody waits for what it does."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from benchmarks.costs.decoding import compiled_module
from jaxobs.agent import analysis, slices
from jaxobs.agent.analysis import Analysis, ModuleDone
from jaxobs.agent.slices import Slices

WORK = 0.0001


class Clock:
    """A clock that work and sleep move on."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(slices, "perf_counter", made.perf_counter)
    monkeypatch.setattr(slices, "sleep", made.sleep)
    return made


def worked(pace: Slices, clock: Clock, seconds: float) -> list[float]:
    """The stretches of work without a pause in so many seconds of work."""
    stretches, slept = [0.0], 0
    for _ in range(round(seconds / WORK)):
        clock.now += WORK
        stretches[-1] += WORK
        pace()
        if len(clock.slept) > slept:
            slept = len(clock.slept)
            stretches.append(0.0)
    return stretches


def test_no_stretch_of_work_is_longer_than_a_slice(clock: Clock) -> None:
    pace = Slices()
    pace.has_waited()
    assert max(worked(pace, clock, 1.0)) <= slices.SLICE_SECONDS + WORK
    assert sum(clock.slept) >= 1.6  # two fifths of a core at most


def test_who_has_just_rested_begins_a_slice(clock: Clock) -> None:
    pace = Slices()
    worked(pace, clock, 0.0002)
    clock.slept.clear()
    clock.now += 10.0
    pace.has_waited()
    pace()
    assert clock.slept == []


def test_nobody_is_kept_waiting(clock: Clock) -> None:
    pace = Slices()
    pace.has_waited()
    with pace.without_pauses():
        assert len(worked(pace, clock, 0.1)) == 1
    assert len(worked(pace, clock, 0.1)) > 100


def test_who_falls_behind_goes_on_without_pauses_until_it_has_rested(clock: Clock) -> None:
    pace = Slices(patience=0.5)
    pace.has_waited()
    worked(pace, clock, 1.0)
    assert sum(clock.slept) < 0.5
    clock.slept.clear()
    worked(pace, clock, 0.1)
    assert clock.slept == []
    pace.has_waited()
    worked(pace, clock, 0.1)
    assert clock.slept


def test_a_module_is_read_without_rest_while_somebody_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "LONGEST_REST", 30.0)  # one would fail the test
    monkeypatch.setattr(analysis, "perf_counter", iter(range(0, 10**6, 100)).__next__)
    worker = Analysis(print, lambda: None)
    worker.submit(1, compiled_module(8))
    worker.submit(2, compiled_module(9))
    threading.Timer(0.1, worker.start).start()
    began = time.monotonic()
    done = worker.settle(25.0)
    worker.stop()
    assert [one.module is not None for one in done if isinstance(one, ModuleDone)] == [True, True]
    assert time.monotonic() - began < 20.0


def test_from_one_module_to_the_next_is_a_rest_as_long_as_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "perf_counter", iter(range(0, 10**6, 100)).__next__)  # 100 s each
    worker = Analysis(print, lambda: None)
    worker.submit(1, compiled_module(8))
    worker.submit(2, compiled_module(9))
    began = time.monotonic()
    worker.start()
    done: list[Any] = []
    while len(done) < 2:
        time.sleep(0.01)
        done += worker.finished()
    worker.stop()
    assert time.monotonic() - began >= analysis.LONGEST_REST
