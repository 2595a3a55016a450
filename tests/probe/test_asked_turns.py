"""Which turns of a loop are asked whether the device is done: by their pace, in pairs, and where a pass ends."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest

from jaxobs.flow.ring import Ring
from jaxobs.model.events import RAN, UNMARKED
from jaxobs.probe.steps.iteration import Steps
from jaxobs.probe.steps.loops import (
    ASKED_APART,
    COMPLETIONS,
    EVERY,
    PAIRED,
    LoopState,
    UnmarkedCalls,
)
from jaxobs.probe.watch.completions import Output


def test_of_short_turns_each_nth_is_asked_and_each_of_long_ones() -> None:
    for turn, every in ((10_000, 521), (1_000_000, 123), (5_000_000, PAIRED), (20_000_000, 1), (10**10, 1)):
        turns = LoopState("train")
        turns.enter(0, 0, None)
        for number in range(COMPLETIONS + 1):
            turns.completed(number)
        at = [turns.asks(number, number * turn) for number in range(20_000)]
        assert turns.every == every
        assert sum(at[10_000:]) == pytest.approx((2 if every == PAIRED else 1) * 10_000 / every, rel=0.04)
        assert every * turn >= ASKED_APART or every == EVERY[-1]


def test_of_a_loop_that_was_soon_told_twice_turns_are_asked_as_soon_as_their_pace_is_known(
    polled: Any,
) -> None:
    turns, asked = polled.side.loops.state("train"), []
    turns.give_up()  # no turn is asked because there are no completions yet
    polled.side.loops.turn_ended = lambda step: asked.append(step.number)
    for _ in Steps(polled.side.loops, range(60), "train", None, None):
        time.sleep(0.012)
    assert turns.every in {1, PAIRED}
    assert len(asked) >= 5


def test_until_two_completions_are_told_each_turn_is_asked_and_then_the_last_of_a_pass() -> None:
    turns, first, second = LoopState("train"), 10**9, 2 * 10**9
    turns.enter(0, first, None)
    assert [turns.asks(number, first + number) for number in range(10)] == [True] * 10
    assert not turns.counted
    turns.completed(1)
    assert turns.asks(10, first + 10)
    turns.completed(2)
    assert not any(turns.asks(number, first + number) for number in range(2, 100))
    turns.leave(first + 100)
    turns.enter(100, second, 100)
    assert [number for number in range(110, 300) if turns.asks(number, second)] == list(range(196, 203))
    turns.leave(second)
    turns.enter(300, second + 1, 100)  # passes in a row: of one in a quarter of a second it is seen
    assert not any(turns.asks(number, second) for number in range(310, 490))


@pytest.mark.parametrize("waits", [2, 3, 5, 7, 10, 17, 18, 20, 50, 100])
@pytest.mark.parametrize("every", EVERY[1:])
def test_a_host_that_waits_in_each_nth_turn_is_not_met_waiting_in_all(every: int, waits: int) -> None:
    """Where one turn in seven was asked, and the loss was read in each seventh, the host seemed to wait in all."""
    turns = LoopState("train")
    turns.give_up()
    turns.every = every
    counted = []
    for number in range(every * waits * 10):
        turns.asks(number, 10**9)
        counted += [number] if turns.counted else []
    for phase in range(waits):
        met = sum(number % waits == phase for number in counted)
        assert met <= 2 * len(counted) / waits + 2


@pytest.mark.parametrize("passed", [None, 40, 700])
@pytest.mark.parametrize("every", EVERY)
def test_turns_between_two_that_are_asked_are_passed_over_and_no_others(
    every: int, passed: int | None
) -> None:
    turns = LoopState("train")
    turns.give_up()
    turns.enter(30, 10**9, passed)
    turns.every = every
    asked = [number for number in range(30, 6_000) if turns.asks(number, 10**9)]
    for number in sorted(set(range(30, asked[-1])) - set(asked)):
        assert turns.next_asked(number) == next(each for each in asked if each > number)


def test_the_pace_of_turns_is_that_of_all_passes_without_what_is_between_them() -> None:
    turns, at = LoopState("train"), 10**9
    turns.give_up()
    for number in range(0, 400_000, 100):
        turns.enter(number, at, 100)
        for each in range(number, number + 100):
            turns.asks(each, at)
            at += 300_000_000 if each == 0 else 20_000  # the first compiles
            if 0 < each < 1_000:
                assert turns.every == 1
        turns.leave(at)
        at += 10**8
        if turns.every == EVERY[-1]:
            break
    assert 1_000 < number < 10_000


def test_what_is_found_outside_steps_is_told_by_what_ran_as_loops_take_turns() -> None:
    """It was told of the loop that was under way when it arrived, which then seemed to wait in each step."""
    unmarked, marked = UnmarkedCalls(Ring(100)), LoopState("train")
    for turns in (unmarked, marked):
        turns.counted = True
        for run, ready in ((1, True), (2, False), (1, True)):
            turns.asked(run, ready=ready)
    assert [(*found[:3], found.run) for found in unmarked.new()] == [(UNMARKED, 2, 2, 1), (UNMARKED, 1, 0, 2)]
    assert [(*found[:3], found.run) for found in marked.new()] == [("train", 3, 2, 0)]
    assert not [*unmarked.new(), *marked.new()]


def test_a_sample_outside_steps_names_what_was_called_last_until_a_step_is_marked() -> None:
    unmarked = UnmarkedCalls(Ring(100))
    assert unmarked.newest == ""
    for run in (1, 2):
        unmarked.note(run, 10 * run, 10 * run + 1)
        assert unmarked.newest == f"{RAN}{run}"
    unmarked.off = True
    assert unmarked.newest == ""


def test_a_sample_after_a_pass_names_nothing_once_the_device_is_done_with_its_last_call() -> None:
    unmarked = UnmarkedCalls(Ring(100))
    for run, at in ((1, 0), (1, 1), (2, 2), (1, 10**9), (1, 10**9 + 1)):
        number = unmarked.note(run, at, at)
    unmarked.output = Output(unmarked, number, 1, at, at)
    assert unmarked.newest == f"{RAN}1"
    unmarked.output.ready = 2 * 10**9
    assert unmarked.newest == ""
    unmarked.note(1, 3 * 10**9, 3 * 10**9)  # the pass is longer than the one before
    assert unmarked.newest == f"{RAN}1"


def test_the_last_calls_before_another_function_are_asked_where_passes_are_alike() -> None:
    """An unmarked script trains 400 steps and evaluates 90, again and again, and never marks where that begins."""
    turns, at, asked = UnmarkedCalls(Ring(10_000)), 10**9, Counter[int]()
    turns.give_up()
    for _ in range(4):
        for run, count in ((1, 400), (2, 90)):
            for place in range(count):
                number = turns.note(run, at, at)
                if turns.asks(number, at) and place == count - 1:
                    asked[run] += 1
                    assert turns.last == number
                at += 10**6
    assert asked == {1: 3, 2: 3}  # all but the first, whose length nobody knew
