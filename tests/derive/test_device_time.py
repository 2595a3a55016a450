"""Device seconds of executables: never more than the loop's wall time, nothing lost, and unknown where runs are."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxobs.derive.fold import Fold
from jaxobs.model.events import (
    ExecutableRan,
    FunctionCalled,
    FunctionWatched,
    LoopEnded,
    StepCompleted,
)
from tests.derive.made_up import (
    MILLISECOND,
    PEAKS,
    applied,
    at,
    backend,
    check,
    created,
    families,
    module,
    new_fold,
    step,
)
from tests.derive.timed_runs import watched


def entries(fold: Fold, time: float) -> dict[str, dict[str, Any]]:
    return {entry["function"]: entry for entry in fold.snapshot(at(time)).to_dict()["executables"]}


slices = st.lists(
    st.lists(
        st.tuples(st.floats(0, 0.5), st.lists(st.integers(1, 3), max_size=5), st.integers(-3, 0)), max_size=6
    ),
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(slices, st.tuples(*[st.floats(1e-3, 0.5)] * 3), st.booleans())
def test_together_they_take_no_longer_than_the_loop(
    turns: list[list[tuple[float, list[int], int]]], per_run: tuple[float, ...], completions: bool
) -> None:
    fold = watched(dict(enumerate(per_run, 1)))
    clock, number = 1.0, 0
    total = 0.0
    for turn in turns:
        for length, runs, behind in turn:
            fold.apply(step(number, clock, clock + length, runs=tuple(runs)))
            clock += length
            total += sum(per_run[run - 1] for run in runs)
            if completions:
                fold.apply(StepCompleted("train", number + behind, at(clock), MILLISECOND))
            number += 1
        snapshot = fold.snapshot(at(clock))
        document = snapshot.to_dict()
        spent = sum(entry["seconds"] or 0.0 for entry in document["executables"])
        wall = document["loops"]["train"]["wall_seconds"] if number else 0.0
        assert spent <= wall * (1 + 1e-9) + 1e-9
        if not completions:  # what there was no room for comes as soon as there is
            assert spent == pytest.approx(min(wall, total), abs=1e-6)
    if number and not completions:
        fold.apply(step(number, clock, clock + total + 1.0))
        last = entries(fold, clock + total + 1.0)
        assert sum(entry["seconds"] for entry in last.values() if entry["runs"]) == pytest.approx(total)


def test_where_the_device_is_the_limit_they_take_all_of_it_and_efficiency_goes_by_that() -> None:
    """Sampled 4 % too long, as the host waits for each step."""
    fold = watched({1: 0.0104})
    for second in range(1, 21):
        for turn in range(100):
            begin = second + turn / 100
            number = 100 * second + turn
            fold.apply(step(number, begin, begin + 0.01, runs=(1,)))
        fold.apply(StepCompleted("train", number, at(second + 1), MILLISECOND))
        made = entries(fold, second + 1)["f1"]
        assert made["seconds"] == pytest.approx(second)
    assert made["seconds_per_run"] == pytest.approx(0.01)
    assert made["efficiency"] == pytest.approx(made["bound_seconds"] * made["runs"] / made["seconds"])


def test_what_a_host_that_runs_ahead_dispatched_is_counted_as_the_device_does_it() -> None:
    fold = watched({1: 0.04})
    for number in range(25):
        fold.apply(step(number, 1 + number / 2_500, 1 + (number + 1) / 2_500, runs=(1,)))
    assert entries(fold, 1.01)["f1"]["seconds"] == pytest.approx(0.01)
    fold.apply(StepCompleted("train", 0, at(1.04), MILLISECOND))  # the host is done, the device is not
    fold.apply(LoopEnded("train", at(1.01), 0))
    assert entries(fold, 1.5)["f1"]["seconds"] == pytest.approx(0.5)
    assert entries(fold, 3.0)["f1"]["seconds"] == pytest.approx(1.0)
    assert entries(fold, 9.0)["f1"]["seconds"] == pytest.approx(1.0)
    assert entries(fold, 9.0)["f1"]["seconds_per_run"] == pytest.approx(0.04)


def test_what_the_device_did_while_an_inner_loop_or_a_phase_waited_for_it_is_counted() -> None:
    fold = watched({1: 0.04})
    for epoch in range(3):
        begin, first = 1 + 2 * epoch, 26 * epoch
        for number in range(first, first + 25):
            start = begin + (number - first) / 2_500
            fold.apply(step(number, start, start + 4e-4, runs=(1,)))
        fold.snapshot(at(begin + 0.02))
        fold.apply(step(first + 25, begin + 0.02, begin + 1.5, nested=1.48))
        fold.apply(StepCompleted("train", first + 25, at(begin + 1.01), MILLISECOND))
        made = entries(fold, begin + 1.6)["f1"]
        assert made["seconds"] == pytest.approx(epoch + 1)
        assert made["seconds_per_run"] == pytest.approx(0.04)


def test_a_few_per_cent_too_many_at_the_end_of_a_loop_were_not_spent() -> None:
    fold = watched({1: 0.0103})
    for number in range(100):
        fold.apply(step(number, 1 + number / 100, 1.01 + number / 100, runs=(1,)))
    fold.apply(LoopEnded("train", at(2), 0))
    assert entries(fold, 2.5)["f1"]["seconds"] == pytest.approx(1.0)
    assert entries(fold, 9.0)["f1"]["seconds"] == pytest.approx(1.0)


def test_runs_that_are_no_longer_known_are_no_counter_any_more() -> None:
    fold = watched({1: 0.01, 2: 0.01})
    fold.apply(step(0, 1, 2, runs=(1, 2)))
    before = check(fold.snapshot(at(2)), {})
    names = ("jaxobs_executable_runs_total", "jaxobs_executable_seconds_total")
    for name in names:
        assert set(families(fold.snapshot(at(2)))[name]) == {("f1", "h1"), ("f2", "h2")}
    fold.apply(step(1, 2, 3, runs=(-1, 2)))
    fold.apply(FunctionCalled(1, 5, at(3)))
    snapshot = fold.snapshot(at(3))
    check(snapshot, before)
    for name in names:
        assert set(families(snapshot)[name]) == {("f2", "h2")}
    assert families(snapshot)[names[0]]["f2", "h2"] == 2.0
    made = next(entry for entry in snapshot.to_dict()["executables"] if entry["function"] == "f1")
    assert (made["runs"], made["runs_reason"]) == (None, "it has several executables")


def test_what_is_not_watched_has_no_counter_of_runs() -> None:
    fold = applied(new_fold(), [backend(), created(1), step(0, 1, 2, runs=(1,))])
    fold.analysed(1, module())
    assert "jaxobs_executable_runs_total" not in families(fold.snapshot(at(2)))
    fold.apply(FunctionWatched(-1, "f", "", at(2)))  # told late
    assert families(fold.snapshot(at(3)))["jaxobs_executable_runs_total"]["f", "abc"] == 1.0


@pytest.mark.parametrize("per_run", [0.014, 0.02])
def test_what_was_dispatched_and_is_not_done_takes_time_too(per_run: float) -> None:
    """A step takes the device 20 ms, also where timed runs took less. At last the host is 25 steps ahead."""
    fold = watched({1: per_run})
    starts = [1 + max(0.001 * number, 0.02 * (number - 25)) for number in range(201)]
    for number, (start, end) in enumerate(pairwise(starts)):
        fold.apply(step(number, start, end, runs=(1,)))
        if number % 20 == 19 and number > 30:
            done = number - 25
            fold.apply(StepCompleted("train", done, at(1 + 0.02 * (done + 1)), MILLISECOND))
        if number % 10 == 9:
            fold.snapshot(at(end))
    loop = fold.snapshot(at(1 + 0.02 * 175)).to_dict()["loops"]["train"]
    assert loop["steps_per_second"] == pytest.approx(50, rel=0.03)


def test_the_queue_of_a_host_that_waited_in_its_newest_step_is_empty() -> None:
    """Nothing shows when the device was done, and 32 steps may be in flight; but the last turn took longer than these."""
    fold = watched({1: 0.03})
    for number in range(60):
        start = 1 + 0.01 * number
        fold.apply(step(number, start, start + (0.01 if number < 59 else 1.0), runs=(1,)))
    loop = fold.snapshot(at(2.7)).to_dict()["loops"]["train"]
    assert loop["steps_per_second"] == pytest.approx(60 / 1.59, rel=0.01)


def test_what_a_run_took_is_not_lost_where_it_is_timed_after_the_loop() -> None:
    fold = applied(new_fold(), [backend()])
    fold.bind_peaks("example", PEAKS)
    fold.apply(FunctionWatched(-1, "f1", "it has several executables", at(0)))
    fold.apply(created(1, "f1"))
    fold.analysed(1, module(fingerprint="h1"))
    for number in range(100):
        fold.apply(step(number, 1 + number / 100, 1.01 + number / 100, runs=(1,)))
    fold.snapshot(at(2.1))
    fold.apply(ExecutableRan(1, 0.01, 0.0, at(2.2)))
    fold.snapshot(at(2.3))
    fold.apply(step(100, 2.3, 2.31, runs=(1,)))
    assert entries(fold, 2.4)["f1"]["seconds"] == pytest.approx(1.01, rel=0.01)
    assert fold.loops.by_name["train"].recent.spent[1] == pytest.approx(1.01, rel=0.01)
