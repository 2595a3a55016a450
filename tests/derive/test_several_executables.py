"""Several executables of a step or of one content: whose time is known and shown, and how it is shared out to them."""

from __future__ import annotations

import pytest

from jaxobs.derive.executables.executable import SAMPLES_KEPT
from jaxobs.model.events import ExecutableRan, FunctionCalled, FunctionWatched
from tests.derive.made_up import PEAKS, applied, at, backend, created, families, module, new_fold, step
from tests.derive.test_sampled_times import window


def test_executables_of_a_step_share_the_time_in_which_it_was_seen_to_be_done() -> None:
    """Polled closely the two took 4 ms and 6 ms; steps of both are done each 8 ms."""
    executables = applied(new_fold(), [created(1), created(2, "g")]).executables
    for _ in range(SAMPLES_KEPT):
        executables.runs.sampled(ExecutableRan(1, 4e-3, 0.0, 0))
        executables.runs.sampled(ExecutableRan(2, 3e-3, 0.0, 0))
    executables.runs.spaced((1, 2, 2), 8e-3)
    assert [executables.get(run).timed_seconds_per_run for run in (1, 2)] == pytest.approx([3.2e-3, 2.4e-3])


@pytest.mark.parametrize("runs", [(1, 2), (1, 1)])
def test_runs_that_another_device_may_do_beside_each_other_keep_their_own_time(runs: tuple[int, ...]) -> None:
    executables = applied(new_fold(), [created(1), created(2, "g")]).executables
    executables.runs.local_devices = 2
    for run in (1, 2):
        executables.runs.sampled(ExecutableRan(run, 4e-3, 0.0, 0))
    executables.runs.spaced(runs, 4e-3)
    assert [executables.get(run).timed_seconds_per_run for run in (1, 2)] == pytest.approx([4e-3, 4e-3])


def test_what_steps_of_several_executables_take_is_shared_out_by_windows_where_they_saw_all() -> None:
    fold = applied(new_fold(), [created(1, "long"), created(2, "small")])
    runs = fold.executables.runs
    for number, sampled, traced in ((1, 11e-3, 11e-3), (2, 4e-3, 0.7e-3)):
        runs.sampled(ExecutableRan(number, sampled, 0.0, 0))
        runs.spaced((1, 2), 12e-3)
        window(fold.executables[number], traced)
    for _ in range(3):
        runs.spaced((1, 2), 11.5e-3)
    found = [fold.executables[number].timed_seconds_per_run for number in (1, 2)]
    assert found == pytest.approx([11e-3 * 11.5 / 11.7, 0.7e-3 * 11.5 / 11.7])


def test_runs_of_which_polls_time_far_fewer_than_of_the_others_are_absent_until_a_window_comes() -> None:
    fold = applied(new_fold(), [created(1, "long"), created(2, "small")])
    runs = fold.executables.runs
    for number in (1, 1, 1, 2, 1):
        runs.sampled(ExecutableRan(number, 4e-3, 0.0, 0))
    runs.spaced((1, 2), 12e-3)
    long, small = fold.executables[1], fold.executables[2]
    assert (long.timed_seconds_per_run, small.timed_seconds_per_run) == (4e-3, None)
    applied(fold, [FunctionWatched(-2, "small", "", at(0)), FunctionCalled(2, 1, at(1))])
    shown = fold.snapshot(at(1)).to_dict()["executables"]
    assert "too short for polls" in next(
        one["seconds_per_run_reason"] for one in shown if one["function"] == "small"
    )


def test_of_executables_of_one_content_the_newest_that_was_timed_is_shown() -> None:
    fold = applied(new_fold(), [backend(), created(1), FunctionWatched(-1, "f", "", at(0.3))])
    fold.bind_peaks("example", PEAKS)
    fold.analysed(1, module())
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
