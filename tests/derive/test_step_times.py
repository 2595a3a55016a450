"""What a step takes, and how many there are a second."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.observed import histogram_quantile
from jaxobs.derive.catalogue import STEP_BUCKETS
from jaxobs.derive.fold import Fold
from jaxobs.model.events import (
    Compilation,
    Event,
    ExecutableRan,
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
    compiled,
    created,
    families,
    module,
    new_fold,
    step,
    waits,
)  # fmt: skip


def completed(number: int, seconds: float, loop: str = "train") -> StepCompleted:
    return StepCompleted(loop, number, at(seconds), MILLISECOND)


def test_step_time_is_the_spacing_of_completions_and_not_the_hosts_turn() -> None:
    """The host runs ahead: turns of 1 ms, completions every 100 ms."""
    fold = applied(new_fold(), [step(i, i * 0.001, (i + 1) * 0.001, runs=(1,)) for i in range(21)])
    applied(fold, [completed(0, 0.1), completed(10, 1.1), completed(20, 2.1)])
    snapshot = fold.snapshot(at(3))
    loop = snapshot.to_dict()["loops"]["train"]
    assert loop["step_seconds"] == pytest.approx(0.1)
    assert loop["steps_per_second"] == pytest.approx(10)
    assert loop["step_seconds_source"] == "completions"
    assert loop["host_seconds"] == pytest.approx(0.001)
    histogram = families(snapshot)["jaxobs_step_seconds"]["train",]
    assert (histogram.count, histogram.sum) == (21, pytest.approx(2.1))


@pytest.mark.parametrize("function", ["f", "g"])
def test_steps_that_run_what_is_not_watched_too_are_no_time_of_a_run(function: str) -> None:
    """The host runs ahead, and no run begins on an idle device; `g` was compiled in a step and is not watched."""
    fold = applied(new_fold(), [created(1), FunctionWatched(-1, "f", "", at(0))])
    fold.apply(Compilation(function, 2, 1, at(0.0005), (), "off", None, (), None))
    applied(fold, [step(i, i * 0.001, (i + 1) * 0.001, runs=(1,)) for i in range(21)])
    applied(fold, [completed(0, 0.1), completed(10, 1.1), completed(20, 2.1)])
    fold.snapshot(at(3))
    assert fold.executables.seconds_of(1) == (pytest.approx(0.1) if function == "f" else None)


@pytest.mark.parametrize("function", ["f", "g"])
def test_device_time_of_a_step_is_not_known_where_not_all_that_it_runs_is_watched(function: str) -> None:
    fold = applied(new_fold(), [created(1), FunctionWatched(-1, "f", "", at(0)), waits()])
    fold.apply(Compilation(function, 2, 1, at(0.05), (), "off", None, (), None))
    applied(fold, [step(i, i * 0.1, (i + 1) * 0.1, runs=(1,)) for i in range(21)])
    applied(fold, [ExecutableRan(1, 0.08, 0.0001, at(1 + i)) for i in range(5)])
    loop = fold.snapshot(at(3)).to_dict()["loops"]["train"]
    assert loop["device_seconds_per_step"] == (pytest.approx(0.08) if function == "f" else None)


def test_a_device_that_goes_on_after_the_loop_tells_its_step_time() -> None:
    """All steps are dispatched within 20 ms; the device takes 100 ms each."""
    fold = applied(new_fold(), [step(i, i * 0.001, (i + 1) * 0.001, runs=(1,)) for i in range(21)])
    applied(fold, [completed(0, 0.1), LoopEnded("train", at(0.5), 0), completed(20, 2.1)])
    loop = fold.snapshot(at(3)).to_dict()["loops"]["train"]
    assert loop["step_seconds"] == pytest.approx(0.1)


@pytest.mark.parametrize("late", [False, True])
def test_a_pause_between_two_steps_is_no_step_time(late: bool) -> None:
    """Somebody thinks for ten minutes between two cells of a notebook."""
    steps = [step(0, 1.0, 2.0, runs=(1,)), step(1, 602.0, 603.0, runs=(1,))]
    ends = [completed(0, 2.0), completed(1, 603.0)]
    order: list[Event] = (
        [steps[0], ends[0], steps[1], ends[1]] if late else [steps[0], ends[0], ends[1], steps[1]]
    )
    fold = applied(new_fold(), order)
    assert fold.snapshot(at(604)).to_dict()["loops"]["train"]["step_seconds"] == pytest.approx(1.0)


def test_epochs_too_short_for_two_completions_have_the_hosts_turn_and_no_stale_spacing() -> None:
    fold = applied(new_fold(), [created(1), waits()])

    def epochs(first: int, last: int, seconds: float) -> None:
        """Ten steps each; its end is known of the fifth."""
        for epoch in range(first, last):
            for number in range(10):
                begin = clock[0]
                clock[0] += seconds
                fold.apply(step(epoch * 10 + number, begin, clock[0], runs=(1,)))
                if number == 4 or (number == 8 and seconds == 0.1):
                    fold.apply(completed(epoch * 10 + number, clock[0]))
            fold.apply(LoopEnded("train", at(clock[0]), 0))
            clock[0] += 0.5

    clock = [0.0]
    epochs(0, 20, 0.1)
    loop = fold.snapshot(at(clock[0])).to_dict()["loops"]["train"]
    assert (loop["step_seconds"], loop["step_seconds_source"]) == (pytest.approx(0.1), "completions")
    epochs(20, 120, 0.2)
    loop = fold.snapshot(at(clock[0])).to_dict()["loops"]["train"]
    assert loop["step_seconds"] == pytest.approx(0.2)
    epochs(120, 240, 0.1)
    loop = fold.snapshot(at(clock[0])).to_dict()["loops"]["train"]
    assert (loop["step_seconds"], loop["step_seconds_source"]) == (pytest.approx(0.1), "completions")


def test_without_completions_step_time_needs_a_second_of_host_turns() -> None:
    """With a sync every twenty steps the turns are 7 µs and 200 ms for true 10 ms steps."""
    fold = new_fold()
    now = 0.0
    for number in range(19):
        fold.apply(step(number, now, now + 7e-6))
        now += 7e-6
    assert fold.snapshot(at(1)).to_dict()["loops"]["train"]["step_seconds"] is None
    for number in range(19, 400):
        length = 0.2 if number % 20 == 19 else 7e-6
        fold.apply(step(number, now, now + length))
        now += length
    loop = fold.snapshot(at(10)).to_dict()["loops"]["train"]
    assert loop["step_seconds"] == pytest.approx(0.01, rel=0.02)
    assert loop["step_seconds_source"] == "host"


def ahead(fold: Fold, steps: int, device: float, *, wait_every: int = 10**9) -> float:
    """The host runs 32 steps ahead of a device that takes so long, and waits for it at times; when it has ended."""
    now = done = 0.0
    behind: list[float] = []
    for number in range(steps):
        begun = now
        now += 1e-4
        done = max(done, now) + device
        behind = [end for end in [*behind, done] if end > now]
        if len(behind) > 32:
            now = behind[-33]
        if number % wait_every == wait_every - 1:
            now = done
        fold.apply(step(number, begun, now, runs=(1,)))
    return now


@pytest.mark.parametrize("device", [0.02, 0.05, 0.2])
def test_where_no_output_can_be_asked_for_the_hosts_turns_tell_over_ten_times_what_may_be_in_flight(
    device: float,
) -> None:
    """The first 32 steps, which fill the device's queue, take the host nothing."""
    for steps in (100, 300, 420):
        fold = new_fold()
        end = ahead(fold, steps, device)
        fold.end(at(end), by_itself=True)
        loop = fold.snapshot(at(end)).to_dict()["loops"]["train"]
        assert "320 steps without a break" in loop["steps_per_second_reason"]
        if steps < 320:
            assert (loop["steps_per_second"], loop["mfu"]) == (None, None)
        else:
            assert loop["steps_per_second"] == pytest.approx(1 / device, rel=0.11)
            assert loop["step_seconds_source"] == "host"


@pytest.mark.parametrize("pause", [0.0, 1.5])
def test_epochs_no_longer_than_the_devices_queue_tell_no_step_time_where_no_output_can_be_asked_for(
    pause: float,
) -> None:
    """The host waits behind each: what the device takes is spent there."""
    fold, now = new_fold(), 0.0
    for number in range(600):
        fold.apply(step(number, now, now + 1e-3, runs=(1,)))
        now += 1e-3
        if number % 30 == 29:
            fold.apply(LoopEnded("train", at(now), 0))
            now += 0.3 + pause
    loop = fold.snapshot(at(now)).to_dict()["loops"]["train"]
    assert loop["step_seconds"] is None
    assert loop["step_seconds_reason"]


def test_a_rate_of_before_the_completions_stopped_is_none_of_now() -> None:
    """The host is ahead of the device; after two seconds all outputs are donated, and steps are eight times as fast."""
    fold = applied(new_fold(), [step(i, i / 10, (i + 1) / 10, runs=(1,)) for i in range(20)])
    applied(fold, [completed(n, n / 10 + 0.25) for n in (5, 10, 15)])
    now = 2.0
    for number in range(20, 1_500):
        fold.apply(step(number, now, now + 0.0125, runs=(1,)))
        now += 0.0125
        if number % 80 == 0:
            rate = fold.snapshot(at(now)).to_dict()["loops"]["train"]["steps_per_second"]
    assert now > 20
    assert 67 < rate <= number / now, "of all steps that are told by now, as they are of the last half minute"


def test_steps_of_seconds_tell_what_their_run_takes_where_the_host_is_ahead() -> None:
    """The host calls eight steps of 1.5 s at once."""
    fold = applied(new_fold(), [created(1)])
    applied(fold, [step(i, i / 1000, (i + 1) / 1000, runs=(1,)) for i in range(8)])
    applied(fold, [completed(n, 1.5 * (n + 1)) for n in range(5)])
    assert fold.executables.seconds_of(1) == pytest.approx(1.5)


def test_a_loop_that_ends_with_steps_in_flight_has_the_rate_of_those_before() -> None:
    """As a script does that runs out of data and ends: nobody sees the end of its last steps."""
    fold = applied(new_fold(), [step(i, i / 10, (i + 1) / 10, runs=(1,)) for i in range(20)])
    applied(fold, [completed(n, n / 10 + 0.25) for n in (5, 10, 15)])
    fold.end(at(2.1), by_itself=True)
    loop = fold.snapshot(at(2.1)).to_dict()["loops"]["train"]
    assert loop["steps"] == 20
    assert loop["steps_per_second"] == pytest.approx(10, rel=0.1)


def test_where_completions_stop_the_hosts_turns_are_counted_after_ten_seconds_and_are_in_doubt() -> None:
    fold = applied(new_fold(), [step(i, i / 10, (i + 1) / 10, runs=(1,)) for i in range(100)])
    applied(fold, [completed(n, n / 10 + 0.25) for n in (10, 20, 30)])
    shown = fold.snapshot(at(10)).to_dict()["loops"]["train"]
    assert (shown["steps_per_second"], shown["wall_seconds"]) == (
        pytest.approx(10, rel=0.06),
        pytest.approx(3.25),
    )
    applied(fold, [step(i, i / 10, (i + 1) / 10, runs=(1,)) for i in range(100, 150)])
    later = fold.snapshot(at(15)).to_dict()["loops"]["train"]
    assert later["wall_seconds"] > 13


def test_a_completion_of_another_call_is_better_than_the_hosts_turns() -> None:
    fold = applied(new_fold(), [completed(0, 0.2)])
    applied(fold, [step(i, i * 0.1, (i + 1) * 0.1, runs=(1, 2)) for i in range(60)])
    fold.apply(completed(50, 10.2))
    loop = fold.snapshot(at(6)).to_dict()["loops"]["train"]
    assert (loop["step_seconds"], loop["step_seconds_source"]) == (pytest.approx(0.2), "completions")


@pytest.mark.parametrize("later", [None, math.nan])
def test_there_is_no_rate_of_amounts_that_are_not_known_of_late(later: float | None) -> None:
    fold = applied(new_fold(), [waits(), *(step(i, i, i + 1, runs=(1,), examples=4.0) for i in range(10))])
    fold.snapshot(at(10))
    applied(fold, [step(i, i, i + 1, runs=(1,), examples=later) for i in range(10, 60)])
    loop = fold.snapshot(at(60)).to_dict()["loops"]["train"]
    assert (loop["steps_per_second"], loop["examples"], loop["examples_per_second"]) == (1.0, 40.0, None)
    if later is None:
        assert loop["examples_per_second_reason"] == "the steps that rates are over had none"
    else:
        assert "no finite, positive number" in loop["examples_per_second_reason"]
        assert loop["examples_reason"] == loop["examples_per_second_reason"]


def test_rates_and_labels_go_when_no_step_ends_any_more() -> None:
    fold = applied(new_fold(), [backend(), created(1, devices=2)])
    fold.bind_peaks("example", PEAKS)
    fold.analysed(1, module())
    applied(fold, [waits(), *(step(i, i, i + 1, runs=(1,), examples=4.0) for i in range(10))])
    loop = fold.snapshot(at(11)).to_dict()["loops"]["train"]
    assert (loop["steps_per_second"], loop["examples_per_second"]) == (1.0, 4.0)
    assert loop["mfu"] == pytest.approx(1e9 / 1e12)
    assert fold.snapshot(at(40)).to_dict()["loops"]["train"]["mfu"] is not None
    later = fold.snapshot(at(120))
    loop = later.to_dict()["loops"]["train"]
    assert (loop["mfu"], loop["steps_per_second"]) == (None, None)
    assert loop["mfu_reason"] == "no step has ended for 110 s"
    assert loop["bottleneck"]["label"] == "unknown"
    assert "jaxobs_mfu_ratio" not in families(later)
    assert "jaxobs_bottleneck_ratio" not in families(later)
    assert families(later)["jaxobs_steps_total"]["train",] == 10


def test_where_steps_take_ten_minutes_shares_are_there_all_along() -> None:
    """JaxRankLags compares them: by its rates a loop of such steps has done nothing in most minutes."""
    fold = applied(new_fold(), [waits(), *(step(i, 600 * i, 600 * (i + 1), runs=(1,)) for i in range(4))])
    for later in (1, 60, 300, 599):
        shown = families(fold.snapshot(at(2400 + later)))["jaxobs_bottleneck_ratio"]
        assert sum(shown.values()) == pytest.approx(1.0), later


def test_the_rate_of_a_host_that_may_be_ahead_of_its_device_is_no_utilization() -> None:
    fold = applied(new_fold(), [backend(), created(1)])
    fold.bind_peaks("example", PEAKS)
    fold.analysed(1, module(matrix=1e12))
    applied(fold, [step(i, i / 100, (i + 1) / 100, runs=(1,)) for i in range(10)])
    loop = fold.snapshot(at(3)).to_dict()["loops"]["train"]
    assert (loop["mfu"], loop["steps_per_second"]) == (None, None)
    assert "ahead of the device" in loop["mfu_reason"]


def test_a_loop_of_minutes_a_step_keeps_its_rates_between_them() -> None:
    fold = applied(new_fold(), [step(0, 0.0, 120.0), step(1, 120.0, 240.0)])
    fold.snapshot(at(241))
    assert fold.snapshot(at(400)).to_dict()["loops"]["train"]["steps_per_second"] == pytest.approx(1 / 120)


@pytest.mark.parametrize("at_first", [True, False])
def test_compiles_are_in_neither_rate_nor_step_time(at_first: bool) -> None:
    """Two steps with a compile of 4 s in each, and twenty of 100 ms, before them or after them."""
    begin = 0.0 if at_first else 2.0
    compiling = [
        event
        for number in (0, 1)
        for event in (
            compiled(begin + number * 4.1, begin + 4.0 + number * 4.1),
            step(number, begin + number * 4.1, begin + (number + 1) * 4.1),
        )
    ]
    start = 8.2 if at_first else 0.0
    others = [step(i, start + 0.1 * i, start + 0.1 * (i + 1)) for i in range(20)]
    loop = applied(new_fold(), [*compiling, *others] if at_first else [*others, *compiling])
    shown = loop.snapshot(at(10.5)).to_dict()["loops"]["train"]
    assert shown["steps_per_second"] == pytest.approx(10.0)
    assert shown["step_seconds"] == pytest.approx(0.1)
    assert shown["steps_per_second_reason"] is None
    assert shown["components"]["compile"] == pytest.approx(8.0)


def test_where_every_step_compiles_its_compile_is_taken_off_and_said_to_be() -> None:
    events = [
        event
        for number in range(6)
        for event in (compiled(2 * number, 2 * number + 1.0), step(number, 2 * number, 2 * number + 2))
    ]
    loop = applied(new_fold(), events).snapshot(at(12)).to_dict()["loops"]["train"]
    assert loop["steps_per_second"] == pytest.approx(1.0)
    assert "without compiles, which took 50 %" in loop["steps_per_second_reason"]


def test_where_the_device_may_have_worked_beneath_every_compile_there_is_no_rate() -> None:
    """Each step compiles for 9 s while the device works for 10 s on the one before."""
    events = [
        event
        for number in range(6)
        for event in (
            compiled(9 * number, 9 * number + 9),
            step(number, 9 * number, 9 * number + 9, runs=(1,)),
            completed(number, 10 * number + 19),
        )
    ]
    loop = applied(new_fold(), events).snapshot(at(70)).to_dict()["loops"]["train"]
    assert (loop["steps_per_second"], loop["step_seconds"]) == (None, None)
    assert "there is a compile in each stretch of steps" in loop["steps_per_second_reason"]


def test_one_call_that_is_everything_has_its_time_without_its_compile() -> None:
    """The device was idle when it began, so that nothing worked beneath the compile."""
    events = [compiled(0, 2), step(0, 0, 2.1, runs=(1,)), completed(0, 4.1)]
    loop = applied(new_fold(), events).snapshot(at(5)).to_dict()["loops"]["train"]
    assert loop["step_seconds"] == pytest.approx(2.1)


def test_a_first_call_that_compiles_while_the_device_works_for_another_loop_is_not_too_short() -> None:
    """The second of the compile lies beneath the other loop's queue, and is taken off with it, not once more."""
    events = [
        *(step(number, 0.01 * number, 0.01 * number + 0.01, runs=(1,)) for number in range(10)),
        compiled(0.2, 1.2),
        step(0, 0.2, 1.3, loop="eval", runs=(2,)),
        *(completed(number, number + 1) for number in range(10)),
        completed(0, 12, loop="eval"),
    ]
    loop = applied(new_fold(), events).snapshot(at(13)).to_dict()["loops"]["eval"]
    assert loop["step_seconds"] in (None, pytest.approx(2.0))


def test_a_few_compiles_are_part_of_the_pace_and_said_to_be() -> None:
    steps = [step(i, i, i + 1) for i in range(10)]
    compiles = [compiled(i, i + 0.08) for i in range(10)]
    events = [event for pair in zip(compiles, steps, strict=True) for event in pair]
    loop = applied(new_fold(), events).snapshot(at(10)).to_dict()["loops"]["train"]
    assert loop["steps_per_second"] == pytest.approx(1.0)
    assert "compiles took 8 %" in loop["steps_per_second_reason"]


@given(st.floats(1.01e-5, 9.9), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_a_quantile_of_steps_that_all_take_the_same_time_is_that_time(took: float, quantile: float) -> None:
    """As Prometheus reads it, somewhere within one bucket: to 10 %, and the median to 5.3 %."""
    fold = new_fold()
    for _ in range(1_000):
        fold.series.observe("jaxobs_step_seconds", ("train",), took)
    counts = families(fold.snapshot(at(1)))["jaxobs_step_seconds"]["train",].counts
    bounds = (*STEP_BUCKETS, math.inf)
    cumulative = [list(one) for one in zip(bounds, itertools.accumulate(counts), strict=True)]
    assert histogram_quantile(cumulative, quantile) == pytest.approx(
        took, rel=0.053 if quantile == 0.5 else 0.105
    )
