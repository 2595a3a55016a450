"""Over any sequence of windows the budget holds, whatever they cost."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs_plugins.probes.profiler.schedule import (
    FIRST_SECONDS,
    KEPT_SECONDS,
    MAX_SECONDS,
    MAX_UNMARKED_SECONDS,
    MIN_PAUSE,
    MIN_SECONDS,
    PLANNED_BYTES,
    Schedule,
    Window,
)

MAXIMUM_BYTES = 2**25

windows = st.builds(
    Window,
    length=st.floats(0.001, 3.0),
    starting=st.floats(0, 2.0),
    stopping=st.floats(0, 10.0),
    size=st.integers(0, 2**31),
    steps=st.integers(0, 100_000),
    usual_steps=st.none() | st.floats(0.1, 100_000),
)


@given(
    st.floats(1e-4, 0.1),
    st.lists(
        st.tuples(windows, st.floats(0, 100), st.sampled_from(["read", "empty", "lost"]), st.booleans()),
        max_size=40,
    ),
)
def test_what_windows_have_cost_never_exceeds_the_budget_by_more_than_one_window(ratio, told):
    schedule = Schedule(ratio, MAXIMUM_BYTES, began=1000.0)
    for window, late, outcome, renewed in told:
        began = (
            max(1000.0, schedule.due(renewed=renewed)) + late
        )  # a window may come later than it is due, never earlier
        ended = began + window.starting + window.length + window.stopping
        if outcome == "lost":
            schedule = schedule.lost(window, ended)
        else:
            schedule = schedule.after(window, ended, empty=outcome == "empty")
        assert schedule.spent <= ratio * (ended - 1000.0) + window.cost + 1e-9


@given(windows, st.none() | st.floats(1e-6, 1000))
def test_a_window_is_as_long_as_is_sensible(window, step):
    schedule = Schedule(0.005, MAXIMUM_BYTES, 0.0)
    assert MIN_SECONDS <= schedule.next_length(step) <= FIRST_SECONDS
    after = schedule.after(window, 10.0)
    length = after.next_length(step)
    assert 0 < length <= MAX_SECONDS
    assert length * window.size / window.length <= PLANNED_BYTES * (1 + 1e-9)
    assert after.renewed().next_length(step) <= FIRST_SECONDS


@given(windows, windows)
def test_a_window_between_two_bursts_at_most_doubles_the_next(burst, pause):
    after = Schedule(0.005, MAXIMUM_BYTES, 0.0).after(burst, 10.0)
    assert after.after(pause, 20.0, empty=True).longest() <= 2 * after.longest()


@pytest.mark.parametrize("step", [0.01, 0.1, 1.5])
def test_a_window_holds_two_whole_steps_where_it_may(step):
    window = Window(0.01, 0.001, 0.001, 1_000, 1, 1.0)
    schedule = Schedule(0.005, MAXIMUM_BYTES, 0.0).after(window, 10.0)
    assert schedule.next_length(step) >= 3 * 1.5 * step


def test_a_budget_that_was_not_used_for_hours_is_not_spent_at_once():
    window = Window(0.1, 0.0, 0.1, 2_000, 9, 10.0)
    schedule = Schedule(0.005, MAXIMUM_BYTES, 0.0)
    began = at = 36_000.0
    cost = 0.0
    for _ in range(100):  # something is compiled all the time
        at = max(at, schedule.due(renewed=True)) + window.length
        schedule = schedule.after(window, at)
        cost += window.cost
    assert cost <= 0.005 * (at - began + KEPT_SECONDS) + 2 * window.cost


def test_no_budget_no_window():
    assert Schedule(0.0, MAXIMUM_BYTES, 5.0).due() == math.inf


def test_after_what_makes_the_last_window_useless_the_next_comes_as_soon_as_it_is_paid_for():
    window = Window(0.1, 0.0, 0.01, 2_000, 9, 10.0)
    schedule = Schedule(0.005, MAXIMUM_BYTES, 0.0).after(window, 1000.0)
    assert schedule.due() == 1000.0 + MIN_PAUSE
    assert schedule.due(renewed=True) == pytest.approx(schedule.spent / 0.005)
    dear = schedule.after(Window(0.1, 0.0, 10.0, 2_000, 9, 10.0), 1010.0)
    assert dear.due(renewed=True) == pytest.approx(dear.spent / 0.005)
    assert dear.due(renewed=True) > 1010.0


def test_windows_that_show_nothing_become_rare():
    empty = Window(0.1, 0.0, 0.0, 2_000, 0, None)
    schedule = Schedule(0.1, MAXIMUM_BYTES, 0.0)
    pauses = []
    for _ in range(12):
        ended = schedule.due() + 0.1
        schedule = schedule.after(empty, ended, empty=True)
        pauses.append(schedule.due() - ended)
    assert pauses[0] == pytest.approx(2 * MIN_PAUSE)
    assert pauses == sorted(pauses)
    assert pauses[-1] == 3600


def test_where_no_step_is_marked_windows_of_few_operations_are_long():
    few = Window(0.01, 0.001, 0.001, 1_000, 0, None)
    schedule = Schedule(0.005, MAXIMUM_BYTES, 0.0).after(few, 10.0)
    assert schedule.next_length(None) == MAX_UNMARKED_SECONDS
    many = Window(0.01, 0.001, 0.001, 100_000, 0, None)
    assert MIN_SECONDS < schedule.after(many, 20.0).next_length(None) < MAX_UNMARKED_SECONDS


@pytest.mark.parametrize(
    ("steps", "usual", "slower"),
    [
        (50, 100.0, 0.5),  # half as many steps: half of the time was lost
        (100, 100.0, 0.0),
        (120, 100.0, 0.0),  # chance
        (0, 1.0, 0.3),  # too few to tell: as much as stop() took
        (7, None, 0.3),
    ],
)
def test_how_much_slower_traced_steps_were(steps, usual, slower):
    assert Window(1.0, 0.0, 0.3, 0, steps, usual).slower == pytest.approx(slower)
