"""What other threads call while a loop runs: the device's work for them is none of the loop's, and no idle time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from jaxobs.model.events import UNMARKED, FunctionCalled, StepEnded
from jaxobs.vocabulary.words import ON_ONE_THREAD
from tests.derive.made_up import applied, at, main_thread, step, waits
from tests.derive.timed_runs import watched

OTHER = 2
"""A thread; the loop's is 1."""


def shown(calls: Mapping[int, int], thread: int = OTHER) -> dict[str, Any]:
    """A loop of 50 ms, 10 of them the device's and the rest Python, and these calls a second."""
    fold = applied(watched({1: 0.01, 2: 0.03}), [waits()])
    for second in range(1, 21):
        for turn in range(20):
            begin = second + turn / 20
            fold.apply(step(20 * second + turn, begin, begin + 0.05, runs=(1,)))
        fold.apply(main_thread(second, second + 1, processor=0.8, device=0.2))
        applied(fold, [FunctionCalled(run, each, at(second + 1), thread) for run, each in calls.items()])
        document = fold.snapshot(at(second + 1)).to_dict()
    return dict(document["loops"]["train"])


@pytest.mark.parametrize("calls", [{}, {2: 1}], ids=["none", "few"])
def test_without_them_the_device_is_idle_while_the_host_works(calls: dict[int, int]) -> None:
    loop = shown(calls)
    assert loop["bottleneck"]["label"] == "host"
    assert loop["device_idle"] == pytest.approx(0.8, abs=0.05)
    assert not str(loop["mfu_reason"]).startswith("a lower bound")


def test_a_device_that_may_work_for_them_is_not_said_to_be_idle() -> None:
    loop = shown({2: 25})
    assert loop["device_idle"] is None
    assert "other threads" in loop["device_idle_reason"]
    assert loop["bottleneck"]["shares"]["unknown"] == pytest.approx(0.75, abs=0.05)
    assert "other threads" in loop["bottleneck"]["reason"]
    assert loop["mfu_reason"].startswith("a lower bound")
    assert loop["steps_per_second"] == pytest.approx(20)


def test_a_found_loop_of_a_function_that_several_threads_call_has_the_rate_of_one() -> None:
    fold = applied(watched({1: 0.01}), [waits(loop="f1")])
    rows: list[Any] = []
    for turn in range(1, 101):
        begin = at(1 + turn / 20)
        rows += (UNMARKED, turn, begin, begin + 1_000, 0, 0, 1_000, None, None, 1, 1)
    fold.apply_steps(rows)
    assert fold.snapshot(at(6)).to_dict()["loops"]["f1"]["steps_per_second_reason"] is None
    fold.apply(FunctionCalled(1, 60, at(6), OTHER))
    begin = at(6.1)
    fold.apply_steps([UNMARKED, 101, begin, begin + 1_000, 0, 0, 1_000, None, None, 1, 1])
    loop = fold.snapshot(at(6.2)).to_dict()["loops"]["f1"]
    assert loop["steps_per_second_reason"] == ON_ONE_THREAD
    assert loop["steps_per_second"] == pytest.approx(20, rel=0.05)


def test_calls_of_its_own_thread_are_none_of_them() -> None:
    """Those in phases, which lie outside its steps."""
    assert shown({1: 60, 2: 25}, thread=1) == shown({})


def test_steps_of_loops_on_other_threads_are_calls_as_well() -> None:
    fold = applied(watched({1: 0.01, 2: 0.03}), [waits()])
    for turn in range(400):
        begin = 1 + turn / 20
        fold.apply(step(turn, begin, begin + 0.05, runs=(1,)))
        other: StepEnded = step(turn, begin, begin + 0.05, runs=(2,), loop="actor", thread=OTHER)
        fold.apply(other)
        if turn % 20 == 19:
            fold.apply(main_thread(begin - 1, begin, processor=0.8, device=0.2))
            loops = fold.snapshot(at(begin + 0.05)).to_dict()["loops"]
    assert loops["train"]["device_idle"] is None
    assert "other threads" in loops["train"]["device_idle_reason"]


@pytest.mark.parametrize(("behind", "input_share"), [(0.0, 0.5), (0.05, 0.0)], ids=["together", "in turn"])
def test_waits_of_several_threads_in_one_loop_count_once(behind: float, input_share: float) -> None:
    """Two threads wait for half of each step; where they do so in turn, one of them always works."""
    fold = applied(watched({1: 0.05}), [waits()])
    begun = sorted(
        (1 + turn / 10 + behind * (thread - 1), thread) for turn in range(200) for thread in (1, 2)
    )
    for number, (begin, thread) in enumerate(begun):
        fold.apply(step(number, begin, begin + 0.1, wait=0.05, runs=(1,), thread=thread))
    loop = fold.snapshot(at(21.2)).to_dict()["loops"]["train"]
    assert loop["steps_per_second"] == pytest.approx(20, rel=0.02)
    assert loop["bottleneck"]["shares"]["input"] == pytest.approx(input_share, abs=0.01)


def test_the_rate_of_a_marked_loop_is_of_all_its_threads() -> None:
    fold = applied(watched({1: 0.01}), [waits()])
    for turn in range(100):
        fold.apply(step(turn, 1 + turn / 20, 1.05 + turn / 20, runs=(1,)))
        fold.apply(FunctionCalled(1, 3, at(1.05 + turn / 20), OTHER))
    loop = fold.snapshot(at(6)).to_dict()["loops"]["train"]
    assert loop["mfu_reason"].startswith("a lower bound")
    assert loop["steps_per_second_reason"] is None
