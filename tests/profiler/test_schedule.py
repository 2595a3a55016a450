"""Over any sequence of windows the budget holds, whatever they cost."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs_plugins.probes.profiler.schedule import (
    DENSEST,
    FIRST_LONGEST,
    GROWTH,
    LONGEST,
    PAID_WITHIN,
    SHORTEST,
    SHORTEST_PAUSE,
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
    assert SHORTEST <= schedule.next_length(step) <= FIRST_LONGEST
    length = schedule.after(window, 10.0).next_length(step)
    assert DENSEST <= length <= max(SHORTEST, min(LONGEST, GROWTH * window.length))


@given(windows, windows, st.none() | st.floats(1e-6, 1000))
def test_once_something_else_runs_a_window_is_as_short_as_a_first_one(window, glimpse, step):
    schedule = Schedule(0.005, MAXIMUM_BYTES, 0.0).after(window, 10.0).renewed()
    assert schedule.length is None
    assert DENSEST <= schedule.next_length(step) <= FIRST_LONGEST
    ahead = schedule.glimpsed(glimpse)
    # Where no step is marked a window grows until it has its fill, once it is known how fast that is.
    assert DENSEST <= ahead.next_length(step) <= (schedule.next_length(step) if step else FIRST_LONGEST)
    if (length := ahead.next_length(step)) > DENSEST:
        assert length * glimpse.size / glimpse.length <= MAXIMUM_BYTES
        assert length * glimpse.growing <= PAID_WITHIN * 0.005 * (1 + 1e-9)
    assert schedule.charged(glimpse, 20.0).spent == pytest.approx(schedule.spent + glimpse.cost)


@given(windows, windows, st.none() | st.floats(1e-6, 1000))
def test_after_a_window_of_far_too_many_events_the_next_is_much_shorter(before, window, step):
    schedule = Schedule(0.005, MAXIMUM_BYTES, 0.0).after(before, 10.0).refused(window, 50.0)
    assert schedule.next_length(step) <= max(DENSEST, window.length / GROWTH * (1 + 1e-9))
    assert schedule.spent == pytest.approx(before.cost + window.cost)


@given(windows, st.floats(1e-6, 1000))
def test_a_window_stays_below_the_largest_trace_and_is_paid_for_within_a_minute(window, step):
    schedule = Schedule(0.005, MAXIMUM_BYTES, 0.0).after(window, 10.0)
    length = schedule.next_length(step)
    if length > DENSEST:
        assert length * window.size / window.length <= MAXIMUM_BYTES
        assert length * schedule.growing <= PAID_WITHIN * 0.005 * (1 + 1e-9)


def test_a_budget_that_was_not_used_for_hours_is_not_spent_at_once():
    window = Window(0.1, 0.0, 0.1, 2_000, 9, 10.0)
    schedule = Schedule(0.005, MAXIMUM_BYTES, 0.0)
    began = at = 36_000.0
    cost = 0.0
    for _ in range(100):  # something is compiled all the time
        at = max(at, schedule.due(renewed=True)) + window.length
        schedule = schedule.charged(window, at).after(window, at)
        cost += 2 * window.cost
    assert cost <= 0.005 * (at - began + PAID_WITHIN) + 2 * window.cost


def test_no_budget_no_window():
    assert Schedule(0.0, MAXIMUM_BYTES, 5.0).due() == math.inf


def test_a_step_is_held_ten_times_where_that_costs_little():
    cheap = Window(0.1, 0.0001, 0.001, 10_000, 10, 10.0)
    assert Schedule(0.005, MAXIMUM_BYTES, 0.0).after(cheap, 10.0).next_length(0.02) == pytest.approx(0.2)


def test_one_quiet_window_does_not_make_the_next_one_long():
    busy = Window(0.1, 0.0001, 0.4, 6_000_000, 100, 200.0)
    quiet = Window(0.09, 0.0001, 0.001, 2_000, 0, 0.1)
    schedule = Schedule(0.005, MAXIMUM_BYTES, 0.0)
    after_busy = schedule.after(busy, 10.0)
    after_both = after_busy.after(quiet, 100.0, empty=True)
    assert after_both.next_length(1.0) == pytest.approx(after_busy.next_length(1.0), rel=0.2)


def test_where_steps_go_on_a_window_that_shows_nothing_is_followed_by_longer_ones_and_then_by_rare_ones():
    schedule = Schedule(0.005, MAXIMUM_BYTES, 0.0)
    lengths, pauses = [], []
    for _ in range(6):
        length = schedule.next_length(0.01)  # steps of 10 ms, each far behind its operations
        ended = schedule.due() + length
        schedule = schedule.after(
            Window(length, 0.0, 0.0, 2_000, round(length / 0.01), length / 0.01), ended, empty=True
        )
        lengths.append(length)
        pauses.append(schedule.due() - ended)
    assert lengths == pytest.approx([0.08, 0.32, 1.28, LONGEST, LONGEST, LONGEST])
    assert pauses[:3] == pytest.approx([SHORTEST_PAUSE] * 3)
    assert pauses[3:] == pytest.approx([2 * SHORTEST_PAUSE, 4 * SHORTEST_PAUSE, 8 * SHORTEST_PAUSE])


def test_a_length_that_showed_something_is_kept_for_a_while():
    schedule = Schedule(0.005, MAXIMUM_BYTES, 0.0)
    schedule = schedule.after(Window(0.1, 0.0, 0.0, 2_000, 9, 10.0), 10.0, empty=True)
    schedule = schedule.after(Window(0.4, 0.0, 0.0, 9_000, 40, 40.0), 30.0)
    assert 0.3 < schedule.next_length(0.01) < 0.4


def test_a_longer_window_is_not_tried_where_it_would_not_be_paid_for():
    dear = Window(0.1, 0.0, 0.5, 2_000, 9, 10.0)
    schedule = Schedule(0.005, MAXIMUM_BYTES, 0.0).after(dear, 10.0, empty=True)
    assert schedule.next_length(0.01) < 0.1
    assert schedule.empty == 1


@pytest.mark.parametrize("step", [0.0001, 0.009, 0.03])
def test_the_first_window_holds_five_whole_steps_where_it_may(step):
    assert Schedule(0.005, MAXIMUM_BYTES, 0.0).next_length(step) >= 6 * 1.25 * step


def test_after_what_makes_the_last_window_useless_the_next_comes_as_soon_as_it_is_paid_for():
    window = Window(0.1, 0.0, 0.01, 2_000, 9, 10.0)
    schedule = Schedule(0.005, MAXIMUM_BYTES, 0.0).after(window, 1000.0)
    assert schedule.due() == 1000.0 + SHORTEST_PAUSE
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
    assert pauses[0] == pytest.approx(2 * SHORTEST_PAUSE)
    assert pauses == sorted(pauses)
    assert pauses[-1] == 3600


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


def test_where_no_step_is_marked_windows_of_few_operations_grow_until_they_hold_long_runs():
    schedule = Schedule(0.002, MAXIMUM_BYTES, 0.0).glimpsed(Window(0.02, 0.0, 0.0, 2_000, 0, None))
    lengths = []
    for number in range(4):
        lengths.append(schedule.next_length(None))
        window = Window(lengths[-1], 0.001, 0.001, int(100_000 * lengths[-1]), 0, None)
        schedule = schedule.after(window, 60.0 * (number + 1))
    assert lengths == [FIRST_LONGEST, 4 * FIRST_LONGEST, LONGEST, LONGEST]
