"""The arithmetic of the benchmark of windows: time that was lost on purpose comes back, and none where none was lost."""

from __future__ import annotations

import random

import pytest

from benchmarks.profiler_windows.excess import Turns, difference, excess, placebos

STEP = 0.003


def ran(seconds: float, lost: dict[float, float]) -> Turns:
    """A loop whose steps vary by a tenth, and lose time at given moments."""
    drawn = random.Random(0)
    times, steps, at, left = [0.0], [0], 0.0, sorted(lost.items())
    while at < seconds:
        at += STEP * drawn.uniform(0.9, 1.1)
        if left and at >= left[0][0]:
            at += left.pop(0)[1]
        times.append(at)
        steps.append(steps[-1] + 1)
    return Turns(times, steps)


def test_what_a_window_took_comes_back_also_where_it_is_spread_over_many_steps():
    turns = ran(20.0, {10.0: 0.05, 10.1: 0.03, 10.7: 0.02})
    assert excess(turns, 9.9, 12.0, 2.0) == pytest.approx(0.1, abs=0.01)


def test_where_nothing_was_lost_there_is_no_excess():
    assert excess(ran(20.0, {}), 9.9, 12.0, 2.0) == pytest.approx(0.0, abs=0.01)


def test_a_hiccup_of_the_machine_beside_a_window_is_not_taken_for_the_usual_pace():
    assert excess(ran(20.0, {9.0: 0.5}), 10.0, 12.0, 2.0) == pytest.approx(0.0, abs=0.01)


def test_placebos_lie_where_no_window_is_near():
    spans = [(10.0, 12.0), (30.0, 32.0)]
    found = placebos(spans, 2.0, 2.0)
    assert found == [14.0, 18.0, 22.0, 26.0]
    assert placebos([(10.0, 12.0), (17.0, 19.0)], 2.0, 2.0) == []


def test_the_difference_has_an_interval_that_holds_it_and_shrinks_with_more_windows():
    drawn = random.Random(1)
    few, many = (
        difference([drawn.gauss(50, 20) for _ in range(n)], [drawn.gauss(0, 20) for _ in range(n)])
        for n in (8, 200)
    )
    assert few.low < 50 < few.high
    assert many.low < 50 < many.high
    assert many.high - many.low < (few.high - few.low) / 2


def test_one_wild_placebo_does_not_decide():
    assert difference([50.0] * 12, [0.0] * 11 + [500.0]).middle == pytest.approx(50.0)
