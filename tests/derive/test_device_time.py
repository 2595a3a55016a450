"""Device seconds of executables: never more than the loop's wall time, nothing lost, and unknown where runs are."""

from __future__ import annotations

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
    TurnsAsked,
)
from tests.derive.made_up import (
    MILLISECOND,
    PEAKS,
    applied,
    at,
    backend,
    check,
    compiled,
    created,
    families,
    main_thread,
    module,
    new_fold,
    step,
    waits,
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
    if not completions:
        fold.apply(waits())
    clock, number = 1.0, 0
    for turn in turns:
        for length, runs, behind in turn:
            fold.apply(step(number, clock, clock + length, runs=tuple(runs)))
            clock += length
            if completions:
                fold.apply(StepCompleted("train", number + behind, at(clock), MILLISECOND))
            number += 1
        document = fold.snapshot(at(clock)).to_dict()
        spent = sum(entry["seconds"] or 0.0 for entry in document["executables"])
        wall = document["loops"]["train"]["wall_seconds"] if number else 0.0
        assert spent <= wall * (1 + 1e-9) + 1e-9
        assert wall <= clock - 1.0 + 1e-9


def test_where_the_device_is_the_limit_they_take_all_of_it() -> None:
    """Clean runs took 4 % longer than the loop's turns have room for."""
    fold = applied(watched({1: 0.0104}), [waits()])
    for second in range(1, 21):
        for turn in range(100):
            begin = second + turn / 100
            fold.apply(step(second * 100 + turn, begin, begin + 0.01, runs=(1,)))
        made = entries(fold, second + 1)["f1"]
    assert made["seconds"] == pytest.approx(20.0)
    assert made["seconds_per_run"] == pytest.approx(0.01)


def test_what_a_host_that_runs_ahead_dispatched_is_counted_when_the_device_is_done() -> None:
    """Twenty-five steps of 40 ms are dispatched in 10 ms, and the next one waits for them."""
    fold = watched({1: 0.04})
    for number in range(25):
        fold.apply(step(number, 1 + number / 2_500, 1 + (number + 1) / 2_500, runs=(1,)))
    assert entries(fold, 1.5)["f1"]["seconds"] is None
    fold.apply(step(25, 1.01, 2.05, runs=(1,)))
    fold.apply(StepCompleted("train", 25, at(2.04), MILLISECOND))
    assert entries(fold, 2.1)["f1"]["seconds"] == pytest.approx(26 * 0.04)


@pytest.mark.parametrize(("timed", "idle"), [(0.029, 0.23), (0.02, None)])
def test_a_device_that_works_off_its_queue_is_not_idle_though_its_runs_were_shorter_once(
    timed: float, idle: float | None
) -> None:
    """Each second brings a batch of 25 steps of two executables, 30 ms together; the host waits for the next."""
    fold = watched({1: timed, 2: 0.001})
    for second in range(1, 11):
        for place in range(25):
            first = second if second == 1 or place else second - 0.99
            begin, end = first + place / 2_500, second + (place + 1) / 2_500
            wait = 0.2 if place == 0 and second > 1 else 0.0
            fold.apply(step(25 * second + place, begin, end, runs=(1, 2), wait=wait))
        for place in (2, 10, 24):
            fold.apply(
                StepCompleted("train", 25 * second + place, at(second + 0.03 * (place + 1)), MILLISECOND)
            )
    loop = fold.snapshot(at(10.8)).to_dict()["loops"]["train"]
    assert loop["device_idle"] == (idle and pytest.approx(idle, abs=0.02))
    if idle is None:
        assert "worked for longer than its runs take" in loop["device_idle_reason"]
        assert loop["bottleneck"]["shares"]["input"] == pytest.approx(0.18, abs=0.03)


def test_a_host_that_is_ahead_lets_no_device_wait_while_it_loads() -> None:
    """It loads for 2 ms a step, 20 steps ahead of a device that takes 20 ms; its runs were timed as 17 ms once."""
    fold, end = watched({1: 0.017}), 1.0
    for number in range(500):
        begin, end = end, max(end + 0.002, 1 + 0.02 * (number - 19))
        fold.apply(step(number, begin, end, runs=(1,), wait=0.002))
    for number in range(500):
        if number % 45 in {14, 44}:  # half of these stretches are shorter than 20 steps
            fold.apply(StepCompleted("train", number, at(1 + 0.02 * (number + 1)), MILLISECOND))
    loop = fold.snapshot(at(11.1)).to_dict()["loops"]["train"]
    assert loop["steps_per_second"] == pytest.approx(50, rel=0.01)
    assert loop["bottleneck"]["shares"]["input"] == pytest.approx(0.0, abs=0.01)
    assert "worked for longer than its runs take" in loop["device_idle_reason"]


def test_a_host_that_works_before_it_dispatches_is_not_ahead_of_the_device() -> None:
    """It works for 30 ms a step, then dispatches 20 ms: no output is ready at the end of a turn, nothing is queued."""
    fold = applied(watched({1: 0.02}, samples=0), [TurnsAsked("train", 9, 0, at(1))])
    for number in range(100):
        begin = 1 + 0.03 * number
        fold.apply(step(number, begin, begin + 0.03, runs=(1,)))
        if number > 0 and number % 15 == 0:
            fold.apply(StepCompleted("train", number - 1, at(begin + 0.02), MILLISECOND))
    loop, made = fold.snapshot(at(4.1)).to_dict()["loops"]["train"], entries(fold, 4.1)["f1"]
    assert loop["steps_per_second"] == pytest.approx(1 / 0.03, rel=0.01)
    assert made["seconds_per_run"] is None, "30 ms, and a device that is never idle"
    assert loop["device_idle"] is None


@pytest.mark.parametrize(("samples", "reserve"), [(1, "of 1 run alone"), (4, "of 4 runs alone"), (5, None)])
def test_a_time_by_few_runs_is_known_with_a_reserve(samples: int, reserve: str | None) -> None:
    """One run that others disturbed had told the time of 150, three times too long, as surely as any."""
    made = entries(applied(watched({1: 0.01}, samples), [step(0, 1, 1.1, runs=(1,))]), 1.2)["f1"]
    assert made["seconds_per_run_reason"] == reserve


def test_a_run_takes_no_longer_than_the_steps_it_was_in() -> None:
    """Fifty steps of 10 ms of one executable, of which a disturbed run took 30 ms, then fifty of another."""
    fold = applied(watched({1: 0.03, 2: 0.01}), [waits()])
    for number in range(100):
        begin = 1 + number / 100
        fold.apply(step(number, begin, begin + 0.01, runs=(1 + number // 50,)))
    shares = fold.snapshot(at(2.1)).to_dict()["loops"]["train"]["bottleneck"]["shares"]
    assert entries(fold, 2.1)["f1"]["seconds"] == pytest.approx(0.5)
    assert entries(fold, 2.1)["f2"]["seconds"] == pytest.approx(0.5)
    assert sum(shares.values()) == pytest.approx(1.0)


def test_no_run_took_place_while_its_step_compiled() -> None:
    """Its first step compiles for 4 s of 4.1; only then a run is timed, as 0.2 s."""
    fold = applied(watched({1: 0.2}, samples=0), [waits()])
    fold.apply(compiled(1, 5, function="f1"))
    fold.apply(step(0, 1, 5.1, runs=(1,)))
    fold.snapshot(at(5.2))
    fold.apply(ExecutableRan(1, 0.2, MILLISECOND / 1e9, at(5.3)))
    assert entries(fold, 5.4)["f1"]["seconds"] == pytest.approx(0.1)


def test_a_run_that_was_never_timed_takes_what_its_kin_does() -> None:
    """A function is made anew, and compiled to the same."""
    fold = applied(watched({1: 0.01}), [created(2, "f1"), waits()])
    fold.analysed(2, module(fingerprint="h2"))
    applied(fold, [step(i, 1 + i / 10, 1.1 + i / 10, runs=(2,)) for i in range(10)])
    document = fold.snapshot(at(2.1)).to_dict()
    made = next(entry for entry in document["executables"] if entry["executable"] == "h2")
    assert made["seconds_per_run"] == pytest.approx(0.01)
    assert "same function and sizes" in made["seconds_per_run_reason"]
    assert document["loops"]["train"]["device_idle"] == pytest.approx(0.9)


def test_a_rare_run_that_was_never_timed_leaves_the_rest_of_the_loop_known() -> None:
    """A save each hundredth step, in a turn that takes as long as the others."""
    fold = applied(watched({1: 0.05}), [created(2, "save"), waits()])
    fold.analysed(1, module(matrix=4e10, fingerprint="h1"))
    fold.apply(FunctionWatched(-9, "save", "", at(0)))
    fold.analysed(2, module(fingerprint="h2"))
    for number in range(200):
        runs = (1, 2) if number % 100 == 50 else (1,)
        fold.apply(step(number, 1 + number / 10, 1.1 + number / 10, runs=runs))
    fold.apply(main_thread(1, 21, processor=10.0, device=10.0))
    loop = fold.snapshot(at(21.1)).to_dict()["loops"]["train"]
    shares = loop["bottleneck"]["shares"]
    assert shares["host"] == pytest.approx(0.5 - 0.01)
    assert shares["unknown"] == pytest.approx(0.01)
    for number in range(200, 400):
        fold.apply(step(number, 1 + number / 10, 1.1 + number / 10, runs=(1, 2)))
    loop = fold.snapshot(at(41.1)).to_dict()["loops"]["train"]
    assert loop["bottleneck"]["shares"]["host"] == 0.0
    assert loop["device_idle"] is None
    assert "save" in loop["device_idle_reason"]


def test_an_evaluations_time_a_run_is_without_the_queue_of_training_steps_before_it() -> None:
    """Thirty training steps of 50 ms are in flight when an evaluation of ten steps of 20 ms begins."""
    fold = watched({1: 0.05, 2: 0.02}, samples=0)
    clock, train, evaluated = 1.0, 0, 0
    for _ in range(10):
        for _ in range(30):
            fold.apply(step(train, clock, clock + 1e-3, runs=(1,)))
            train, clock = train + 1, clock + 1e-3
        done = clock + 30 * 0.05
        for _ in range(10):
            fold.apply(step(evaluated, clock, clock + 1e-3, loop="eval", runs=(2,)))
            evaluated, clock = evaluated + 1, clock + 1e-3
        fold.apply(LoopEnded("eval", at(clock), 0))
        for steps in (4, 1):
            fold.apply(
                StepCompleted("eval", evaluated - steps, at(done + (10 - steps + 1) * 0.02), MILLISECOND)
            )
        clock = done + 0.2
    document = fold.snapshot(at(clock)).to_dict()
    taken = {entry["function"]: entry["seconds_per_run"] for entry in document["executables"]}
    assert taken["f2"] is None or taken["f2"] == pytest.approx(0.02, rel=0.1)
    assert document["loops"]["eval"]["step_seconds"] == pytest.approx(0.02, rel=0.1)


def test_runs_that_are_no_longer_known_are_no_counter_any_more() -> None:
    fold = watched({1: 0.01, 2: 0.01})
    applied(fold, [waits(), step(0, 1, 2, runs=(1, 2))])
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


def test_a_loop_with_runs_that_are_not_known_has_no_counter_of_work() -> None:
    """Its FLOPs would be those of the known runs alone, and their rate no MFU."""
    fold = applied(watched({1: 0.01}), [waits(), step(0, 1, 2, runs=(1,))])
    names = ("jaxobs_flops_total", "jaxobs_bytes_total", "jaxobs_bound_seconds_total")
    assert set(names) <= set(families(fold.snapshot(at(2))))
    for number in range(1, 10):
        fold.apply(step(number, 1 + number, 2 + number, runs=(-1,)))
    snapshot = fold.snapshot(at(11))
    assert snapshot.to_dict()["loops"]["train"]["mfu"] is None
    assert not set(names) & set(families(snapshot))


def test_what_is_not_watched_has_no_counter_of_runs() -> None:
    fold = applied(new_fold(), [backend(), created(1), step(0, 1, 2, runs=(1,))])
    fold.analysed(1, module())
    assert "jaxobs_executable_runs_total" not in families(fold.snapshot(at(2)))
    fold.apply(FunctionWatched(-1, "f", "", at(2)))  # told late
    assert families(fold.snapshot(at(3)))["jaxobs_executable_runs_total"]["f", "abc"] == 1.0


def test_what_a_run_took_is_not_lost_where_it_is_timed_after_the_loop() -> None:
    fold = applied(new_fold(), [backend()])
    fold.bind_peaks("example", PEAKS)
    fold.apply(FunctionWatched(-1, "f1", "it has several executables", at(0)))
    fold.apply(created(1, "f1"))
    fold.analysed(1, module(fingerprint="h1"))
    fold.apply(waits())
    for number in range(100):
        fold.apply(step(number, 1 + number / 100, 1.01 + number / 100, runs=(1,)))
    fold.snapshot(at(2.1))
    fold.apply(ExecutableRan(1, 0.01, 0.0, at(2.2)))
    fold.snapshot(at(2.3))
    fold.apply(step(100, 2.3, 2.31, runs=(1,)))
    assert entries(fold, 2.4)["f1"]["seconds"] == pytest.approx(1.01, rel=0.01)


def test_runs_that_are_timed_after_the_loop_took_no_longer_than_it() -> None:
    """What times them meets a slow moment of the machine."""
    fold = watched({1: 0.02}, samples=0)
    for number in range(100):
        fold.apply(step(number, 1 + number / 100, 1.01 + number / 100, runs=(1,)))
    assert entries(fold, 13)["f1"]["seconds"] is None
    fold.apply(ExecutableRan(1, 0.02, 0.0, at(13.1)))
    assert entries(fold, 13.2)["f1"]["seconds"] == pytest.approx(1.0)
