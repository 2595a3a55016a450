"""Several executables of a step or of one content: whose time is known and shown, and how it is shared out to them."""

from __future__ import annotations

import pytest

from jaxobs.derive.executables.view import CUT
from jaxobs.derive.loops.bottleneck import IN_DOUBT
from jaxobs.model.events import UNMARKED, ExecutableRan, FunctionWatched
from tests.derive.made_up import PEAKS, applied, at, backend, created, families, module, new_fold, step, waits
from tests.derive.timed_runs import watched


@pytest.mark.parametrize(("runs", "devices"), [((1, 2), 1), ((1, 1), 2)])
def test_runs_that_may_lie_beside_others_are_not_timed_by_the_steps_they_are_in(
    runs: tuple[int, ...], devices: int
) -> None:
    """Different executables of a step, or runs that another device may do at the same time."""
    executables = applied(new_fold(), [created(1), created(2, "g")]).executables
    executables.local_devices = devices
    executables.sampled(ExecutableRan(1, 4e-3, 0.0, 0))
    executables.spaced(runs, 4e-3, ahead=True)
    assert [executables.seconds_of(run) for run in (1, 2)] == [4e-3, None]


def test_calls_before_their_executable_was_reported_are_counted_once_when_they_turn_out_to_be_steps() -> None:
    """None is counted twice, and none is taken off that was never counted."""
    fold = applied(new_fold(), [created(1, "train"), FunctionWatched(-1, "train", "", at(0.3))])

    def call(first: int, turns: int) -> None:
        for number in range(first, first + 2 * turns):
            begin, run = at(1 + 0.1 * number), 1 + number % 2
            fold.apply_steps([UNMARKED, number, begin, begin, 0, 0, 1_000, None, None, 1, run])

    call(0, 1)
    fold.apply(created(2, "loss"))
    call(2, 20)
    fold.end(at(10.0), by_itself=True)
    assert fold.loops.by_name["train"].steps
    assert [fold.executables[run].runs for run in (1, 2)] == [21, 21]


def test_the_runs_of_a_marked_step_are_counted_in_a_loop_that_was_found_under_its_name() -> None:
    fold = applied(new_fold(), [created(1, "train")])
    for number in range(20):
        begin = at(1 + 0.1 * number)
        fold.apply_steps([UNMARKED, number, begin, begin, 0, 0, 1_000, None, None, 1, 1])
    fold.end(at(4.0), by_itself=True)
    fold.apply(step(30, 4.0, 5.0, runs=(1,), nested=0.5))
    assert fold.executables[1].runs == 21


def test_of_executables_of_one_content_the_newest_that_was_timed_is_shown() -> None:
    fold = applied(new_fold(), [backend(), created(1), FunctionWatched(-1, "f", "", at(0.3))])
    fold.bind_peaks("example", PEAKS)
    fold.analysed(1, module())
    fold.apply(waits())
    shown = []
    for number, seconds in ((1, 0.08), (2, None), (2, 0.04)):
        if seconds is None:
            fold.apply(created(number))
            fold.analysed(number, module())
        else:
            applied(fold, [ExecutableRan(number, seconds, 0.0, at(1.1)), step(0, 1, 1.1, runs=(number,))])
        found = families(fold.snapshot(at(2)))
        assert len(found["jaxobs_executable_bottleneck_info"]) == 1
        shown.append(found["jaxobs_executable_achieved_flops_per_second"]["f", "abc"])
    assert shown == pytest.approx([1e9 / 0.08, 1e9 / 0.08, 1e9 / 0.04])


@pytest.mark.parametrize(("devices", "times", "reserve"), [(1, (0.03, 0.02), CUT), (2, (0.06, 0.04), None)])
def test_no_runs_are_said_to_take_longer_together_than_the_steps_they_were_in(
    devices: int, times: tuple[float, float], reserve: str | None
) -> None:
    """Other programs used the processors when they were timed. On one of two devices each they may lie side by side."""
    fold = watched({1: 0.06, 2: 0.04}, samples=5)
    fold.executables.local_devices = devices
    fold.apply(waits())
    applied(fold, [step(n, 1 + n / 20, 1.05 + n / 20, runs=(1, 2)) for n in range(40)])
    shown = {each["function"]: each for each in fold.snapshot(at(3.1))["executables"]}
    assert tuple(shown[name]["seconds_per_run"] for name in ("f1", "f2")) == pytest.approx(times)
    assert {each["seconds_per_run_reason"] for each in shown.values()} == {reserve}
    assert shown["f1"]["efficiency"] == pytest.approx(shown["f1"]["bound_seconds"] / times[0])


def test_of_their_steps_others_that_were_not_timed_had_what_they_need_at_least() -> None:
    """Eight executables were stretched over the time of a ninth."""
    fold = watched({1: 0.06, 2: 0.04}, samples=5)
    fold.executables.local_devices = 1
    applied(fold, [created(3, "f3"), FunctionWatched(-3, "f3", "", at(0))])
    fold.analysed(3, module(fingerprint="h3"))
    fold.apply(waits())
    applied(fold, [step(n, 1 + n / 20, 1.05 + n / 20, runs=(1, 2, 3)) for n in range(40)])
    shown = {each["function"]: each for each in fold.snapshot(at(3.1))["executables"]}
    least = shown["f3"]["bound_seconds"]
    assert least == pytest.approx(0.001)
    assert shown["f3"]["seconds_per_run"] is None
    together = shown["f1"]["seconds_per_run"] + shown["f2"]["seconds_per_run"]
    assert together == pytest.approx(0.05 - least)


def test_while_the_device_may_work_for_another_loop_it_is_not_said_to_be_idle() -> None:
    """An evaluation whose first step waits for what the host has dispatched of the training, of which no end is seen."""
    fold = watched({1: 0.02, 2: 0.02}, samples=5)
    applied(fold, [step(n, 1 + n / 1000, 1.001 + n / 1000, runs=(1,)) for n in range(100)])
    fold.apply(waits(loop="evaluate"))
    applied(fold, [step(0, 1.1, 3.0, loop="evaluate", runs=(2,))])
    applied(fold, [step(n, 3 + n / 50, 3.02 + n / 50, loop="evaluate", runs=(2,)) for n in range(1, 9)])
    loop = fold.snapshot(at(3.3)).to_dict()["loops"]["evaluate"]
    assert loop["bottleneck"]["label"] == "unknown"
    assert loop["bottleneck"]["reason"] == IN_DOUBT
    assert loop["device_idle"] is None
