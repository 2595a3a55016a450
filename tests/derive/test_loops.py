"""Where a loop's wall time goes, how long its steps take, and what a window says."""

from __future__ import annotations

import math
from typing import Any

import pytest

from jaxobs.model.events import (
    UNMARKED,
    Compilation,
    ExecutableRan,
    FunctionWatched,
    LoopDeclared,
    LoopEnded,
    PhaseEnded,
    Recorded,
    StepCompleted,
)
from tests.derive.made_up import (
    MILLISECOND,
    NO_PEAKS,
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
)


def completed(number: int, seconds: float, loop: str = "train") -> StepCompleted:
    return StepCompleted(loop, number, at(seconds), MILLISECOND)


def test_a_host_turn_is_charged_to_input_checkpoint_compile_and_the_rest() -> None:
    fold = applied(new_fold(), [compiled(1.5, 2.0), step(0, 1.0, 4.0, gap=0.25, wait=0.5, checkpoint=0.75)])
    loop = fold.snapshot(at(5)).to_dict()["loops"]["train"]
    assert loop["wall_seconds"] == 3.25
    assert loop["components"]["compile"] == 0.5
    assert loop["components"]["input"] == 0.5
    assert loop["components"]["checkpoint"] == 0.75
    assert loop["components"]["unknown"] == 1.5  # nothing is watched: what the device did is not known
    assert loop["components"]["host"] == 0.0


def test_what_lies_between_the_phases_of_a_compile_is_compiling_too() -> None:
    phases = (("trace", at(1.0), at(1.2)), ("lower", at(1.21), at(1.3)), ("backend", at(1.31), at(1.8)))
    events = [compiled(1.0, 1.2, phase="trace"), compiled(1.21, 1.3, phase="lower"), compiled(1.31, 1.8)]
    made = Compilation("f", 1, 1, at(1.82), phases, "off", None, (), None)
    fold = applied(new_fold(), [*events, made, step(0, 0.5, 2.5)])
    components = fold.snapshot(at(3)).to_dict()["loops"]["train"]["components"]
    assert components["compile"] == pytest.approx(0.82)
    later = Compilation(
        "f", 1, 1, at(1.82), (phases[0], ("backend", at(1.31), at(1.8))), "off", None, (), None
    )
    fold = applied(
        new_fold(), [events[0], events[2], later, step(0, 0.5, 2.5)]
    )  # 110 ms of the user's between them
    components = fold.snapshot(at(3)).to_dict()["loops"]["train"]["components"]
    assert components["compile"] == pytest.approx(0.71)


def test_a_compile_while_waiting_for_input_is_charged_to_compile_alone() -> None:
    fold = applied(new_fold(), [compiled(1.0, 1.5), step(0, 1.0, 3.0, wait=1.0)])
    components = fold.snapshot(at(5)).to_dict()["loops"]["train"]["components"]
    assert (components["compile"], components["input"]) == (0.5, 0.5)


def test_a_compile_in_an_inner_loop_is_charged_there_and_not_to_the_step_around_it() -> None:
    events = [
        compiled(1.0, 1.5),  # in the outer step, before the inner loop began
        compiled(2.0, 2.25),
        step(0, 2.0, 3.0, loop="eval"),
        step(0, 1.0, 4.0, nested=1.0),
        step(1, 4.0, 5.0),
    ]
    loops = applied(new_fold(), events).snapshot(at(6)).to_dict()["loops"]
    assert loops["eval"]["components"]["compile"] == 0.25
    assert loops["train"]["components"]["compile"] == 0.5
    assert loops["train"]["wall_seconds"] == 3.0


def test_a_compile_over_the_end_of_a_step_is_shared_with_the_next() -> None:
    fold = applied(new_fold(), [compiled(1.5, 2.25), step(0, 1.0, 2.0)])
    assert fold.snapshot(at(2.1)).to_dict()["loops"]["train"]["components"]["compile"] == 0.5
    fold.apply(step(1, 2.0, 3.0))
    assert fold.snapshot(at(4)).to_dict()["loops"]["train"]["components"]["compile"] == 0.75


def test_a_compile_on_another_thread_is_not_charged_to_the_loop() -> None:
    fold = applied(new_fold(), [compiled(1.0, 1.5, thread=2), step(0, 1.0, 2.0, thread=1)])
    assert fold.snapshot(at(3)).to_dict()["loops"]["train"]["components"]["compile"] == 0.0


def test_the_wait_for_an_item_that_never_came_belongs_to_the_loop() -> None:
    fold = applied(new_fold(), [step(0, 1.0, 2.0), LoopEnded("train", at(2.5), 500 * MILLISECOND)])
    loop = fold.snapshot(at(3)).to_dict()["loops"]["train"]
    assert (loop["wall_seconds"], loop["components"]["input"]) == (1.5, 0.5)


def test_busy_and_idle_seconds_of_a_watched_loop() -> None:
    """Ten runs of 50 ms at a bound of 10 ms (compute) in 1 s: half busy; the rest is input and host."""
    from jaxobs.model.events import ExecutableRan

    fold = applied(new_fold(), [backend(), created(1)])
    fold.bind_peaks("example", PEAKS)
    fold.analysed(1, module(matrix=1e10))
    fold.apply(ExecutableRan(1, 0.05, 0.001, at(1)))
    applied(fold, [step(i, 1 + i * 0.1, 1.1 + i * 0.1, wait=0.02, runs=(1,)) for i in range(10)])
    fold.apply(main_thread(1, 2, processor=0.3, device=0.5, marked_input=0.2))
    document = fold.snapshot(at(3)).to_dict()
    components = document["loops"]["train"]["components"]
    assert components["compute"] == pytest.approx(0.5)
    assert components["input"] == pytest.approx(0.2)
    assert components["host"] == pytest.approx(0.3)
    assert document["loops"]["train"]["bottleneck"]["label"] == "compute"
    assert document["loops"]["train"]["mfu"] == pytest.approx(10 * 1e10 / 1.0 / 1e12)
    (executable,) = document["executables"]
    assert executable["runs"] is None  # not watched, so far as was said: its runs are not known
    assert executable["efficiency"] == pytest.approx(0.2)


def test_step_time_is_the_spacing_of_completions_and_not_the_hosts_turn() -> None:
    """The host runs ahead: turns of 1 ms, completions every 100 ms."""
    fold = applied(new_fold(), [step(i, i * 0.001, (i + 1) * 0.001, runs=(1,)) for i in range(21)])
    applied(fold, [completed(0, 0.1), completed(10, 1.1), completed(20, 2.1)])
    snapshot = fold.snapshot(at(3))
    loop = snapshot.to_dict()["loops"]["train"]
    assert loop["step_seconds"] == pytest.approx(0.1)
    assert loop["step_seconds_source"] == "completions"
    assert loop["host_seconds"] == pytest.approx(0.001)
    histogram = families(snapshot)["jaxobs_step_seconds"]["train",]
    assert (histogram.count, histogram.sum) == (20, pytest.approx(2.0))


def test_a_device_that_goes_on_after_the_loop_tells_its_step_time() -> None:
    """All steps are dispatched within 20 ms; the device takes 100 ms each."""
    fold = applied(new_fold(), [step(i, i * 0.001, (i + 1) * 0.001, runs=(1,)) for i in range(21)])
    applied(fold, [completed(0, 0.1), LoopEnded("train", at(0.5), 0), completed(20, 2.1)])
    loop = fold.snapshot(at(3)).to_dict()["loops"]["train"]
    assert loop["step_seconds"] == pytest.approx(0.1)


def test_what_lies_between_two_times_that_a_loop_is_entered_is_no_step_time() -> None:
    steps = [step(0, 0.0, 0.1, runs=(1,)), LoopEnded("train", at(0.1), 0), step(1, 50.0, 50.1, runs=(1,))]
    fold = applied(new_fold(), [*steps, completed(0, 0.1), completed(1, 50.1)])
    assert fold.snapshot(at(51)).to_dict()["loops"]["train"]["step_seconds"] is None


def test_turns_of_seconds_are_step_times_before_any_completion() -> None:
    fold = applied(new_fold(), [step(i, 4.0 * i, 4.0 * (i + 1), runs=(1,)) for i in range(2)])
    loop = fold.snapshot(at(8)).to_dict()["loops"]["train"]
    assert (loop["step_seconds"], loop["step_seconds_source"]) == (pytest.approx(4.0), "host")


def test_completions_with_an_inner_loop_or_a_checkpoint_between_them_tell_no_step_time() -> None:
    """The device may have worked on in it: the spacing would be too long with it, and too short without."""
    steps = [step(0, 0.0, 5.0, nested=3.0, checkpoint=1.0, runs=(1,)), step(1, 5.0, 6.0, runs=(1,))]
    fold = applied(new_fold(), [*steps, completed(0, 0.5), completed(1, 5.5)])
    assert fold.snapshot(at(7)).to_dict()["loops"]["train"]["step_seconds"] is None


@pytest.mark.parametrize("late", [False, True])
def test_a_pause_between_two_steps_is_no_step_time(late: bool) -> None:
    """Somebody thinks for ten minutes between two cells of a notebook."""
    steps = [step(0, 1.0, 2.0, runs=(1,)), step(1, 602.0, 603.0, runs=(1,))]
    ends = [completed(0, 2.0), completed(1, 603.0)]
    order = [steps[0], ends[0], steps[1], ends[1]] if late else [steps[0], ends[0], ends[1], steps[1]]
    fold = applied(new_fold(), order)
    assert fold.snapshot(at(604)).to_dict()["loops"]["train"]["step_seconds"] == pytest.approx(1.0)


def test_epochs_too_short_for_two_completions_have_the_hosts_turn_and_no_stale_spacing() -> None:
    fold = applied(new_fold(), [created(1)])

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


def test_completions_that_tell_nothing_leave_step_time_absent() -> None:
    """All of the time between them belongs to an inner loop: a step of 0 s would be invented."""
    steps = [step(0, 0.0, 5.0, nested=5.0, runs=(1,)), step(1, 5.0, 6.0, runs=(1,))]
    fold = applied(new_fold(), [*steps, completed(0, 1.0), completed(1, 5.5)])
    snapshot = fold.snapshot(at(7))
    loop = snapshot.to_dict()["loops"]["train"]
    assert loop["step_seconds"] is None
    assert loop["step_seconds_reason"]
    assert "jaxobs_step_seconds" not in families(snapshot)


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


def test_rates_and_labels_go_when_no_step_ends_any_more() -> None:
    fold = applied(new_fold(), [backend(), created(1)])
    fold.bind_peaks("example", PEAKS)
    fold.analysed(1, module())
    applied(fold, [step(i, i, i + 1, runs=(1,), examples=4.0) for i in range(10)])
    fold.apply(StepCompleted("train", 9, at(10), 0))
    loop = fold.snapshot(at(11)).to_dict()["loops"]["train"]
    assert (loop["steps_per_second"], loop["examples_per_second"]) == (1.0, 4.0)
    assert loop["mfu"] == pytest.approx(1e9 / 1e12)
    assert fold.snapshot(at(40)).to_dict()["loops"]["train"]["mfu"] is not None
    later = fold.snapshot(at(120))
    loop = later.to_dict()["loops"]["train"]
    assert (loop["mfu"], loop["steps_per_second"]) == (None, None)
    assert loop["mfu_reason"] == "no step has ended for 109 s"
    assert loop["bottleneck"]["label"] == "unknown"
    assert "jaxobs_mfu_ratio" not in families(later)
    assert "jaxobs_bottleneck_ratio" not in families(later)
    assert families(later)["jaxobs_steps_total"]["train",] == 10


def test_a_host_that_only_dispatches_is_no_faster_than_its_device() -> None:
    fold = applied(new_fold(), [backend(), created(1)])
    fold.bind_peaks("example", PEAKS)
    fold.analysed(1, module(matrix=1e12))
    dispatched = [step(i, i / 100, (i + 1) / 100, runs=(1,)) for i in range(10)]
    applied(fold, [*dispatched, ExecutableRan(1, 2.0, 0.01, at(2))])
    loop = fold.snapshot(at(3)).to_dict()["loops"]["train"]
    assert loop["wall_seconds"] == pytest.approx(0.1)
    assert loop["steps_per_second"] == pytest.approx(0.5)
    assert loop["mfu"] == pytest.approx(0.5)


def test_the_rate_of_a_host_that_may_be_ahead_of_its_device_is_no_utilization() -> None:
    fold = applied(new_fold(), [backend(), created(1)])
    fold.bind_peaks("example", PEAKS)
    fold.analysed(1, module(matrix=1e12))
    applied(fold, [step(i, i / 100, (i + 1) / 100, runs=(1,)) for i in range(10)])
    loop = fold.snapshot(at(3)).to_dict()["loops"]["train"]
    assert loop["mfu"] is None
    assert "ahead of the device" in loop["mfu_reason"]


def test_a_loop_of_minutes_a_step_keeps_its_rates_between_them() -> None:
    fold = applied(new_fold(), [step(0, 0.0, 120.0), step(1, 120.0, 240.0)])
    fold.snapshot(at(241))
    assert fold.snapshot(at(400)).to_dict()["loops"]["train"]["steps_per_second"] == pytest.approx(1 / 120)


def test_without_peaks_there_is_no_bound_and_not_a_bound_of_zero_seconds() -> None:
    fold = applied(new_fold(), [backend(), created(1)])
    fold.bind_peaks("example", NO_PEAKS)
    fold.analysed(1, module())
    fold.apply(step(0, 1.0, 2.0, runs=(1,)))
    snapshot = fold.snapshot(at(3))
    bounds = families(snapshot).get("jaxobs_bound_seconds_total", {})
    assert ("train", "compute") not in bounds
    assert ("train", "memory") not in bounds
    loop = snapshot.to_dict()["loops"]["train"]
    assert (loop["mfu"], loop["mfu_reason"]) == (None, "no peak for matrix float32")
    assert families(snapshot)["jaxobs_flops_total"]["train", "float32", "model"] == 1e9


def test_bound_seconds_of_runs_before_the_peaks_were_known_are_counted_later() -> None:
    fold = applied(new_fold(), [created(1), step(0, 1.0, 2.0, runs=(1,))])
    fold.analysed(1, module(matrix=1e10))
    fold.snapshot(at(3))
    fold.apply(backend())
    fold.bind_peaks("example", PEAKS)
    bounds = families(fold.snapshot(at(4)))["jaxobs_bound_seconds_total"]
    assert bounds["train", "compute"] == pytest.approx(0.01)


def test_runs_of_a_namesake_that_nobody_watches_are_unknown_and_not_zero() -> None:
    from jaxobs.model.events import FunctionWatched

    fold = applied(new_fold(), [created(1), created(2), FunctionWatched(-1, "f", "several", at(1))])
    applied(fold, [step(0, 1.0, 2.0, runs=(1,))])
    fold.analysed(1, module(fingerprint="one"))
    fold.analysed(2, module(fingerprint="two"))
    snapshot = fold.snapshot(at(3))
    told = {entry["executable"]: (entry["runs"], entry["runs_reason"]) for entry in snapshot["executables"]}
    assert told == {"one": (1, None), "two": (None, "no watched call has run it")}
    assert families(snapshot)["jaxobs_executable_runs_total"] == {("f", "one"): 1.0}


def test_mfu_is_absent_while_a_run_has_no_cost_or_was_not_seen() -> None:
    fold = applied(new_fold(), [backend(), created(1), created(2, proto=None)])
    fold.bind_peaks("example", PEAKS)
    fold.analysed(1, module())
    fold.apply(step(0, 1.0, 2.0, runs=(1, 2)))
    loop = fold.snapshot(at(3)).to_dict()["loops"]["train"]
    assert (loop["mfu"], loop["mfu_reason"]) == (None, "the cost of some runs is not known")
    fold = applied(new_fold(), [backend(), created(1)])
    fold.bind_peaks("example", PEAKS)
    fold.analysed(1, module())
    fold.apply(step(0, 1.0, 2.0, runs=(1, -1)))
    assert fold.snapshot(at(3)).to_dict()["loops"]["train"]["mfu"] is None


def test_a_loss_that_is_not_a_number_is_absent_with_its_reason() -> None:
    fold = applied(new_fold(), [Recorded("", "loss", 2.5, at(1)), Recorded("", "loss", math.nan, at(2))])
    snapshot = fold.snapshot(at(3))
    recorded = snapshot.to_dict()["loops"]["train"]["recorded"]
    assert recorded["loss"] is None
    assert "finite" in recorded["loss_reason"]
    assert "jaxobs_recorded" not in families(snapshot)
    assert "jaxobs_bottleneck_ratio" not in families(snapshot)  # a loop without a step has no shares


def test_a_lower_bound_is_said_to_be_one() -> None:
    fold = applied(new_fold(), [backend(), created(1)])
    fold.bind_peaks("example", PEAKS)
    fold.analysed(1, module(exact=False, inexact_reasons=("a loop's trip count is not known",)))
    applied(fold, [step(0, 1.0, 2.0, runs=(1,)), StepCompleted("train", 0, at(2), 0)])
    document = fold.snapshot(at(3)).to_dict()
    assert document["loops"]["train"]["mfu_reason"].startswith("a lower bound: a loop's trip count")
    assert document["executables"][0]["bound_seconds_reason"].startswith("a lower bound")


def test_phases_outside_steps_do_not_touch_the_loop() -> None:
    events = [
        step(0, 1.0, 2.0),
        LoopEnded("train", at(2), 0),
        PhaseEnded("checkpoint", None, at(2), at(4), 0),
    ]
    fold = applied(new_fold(), events)
    snapshot = fold.snapshot(at(5))
    assert snapshot.to_dict()["loops"]["train"]["components"]["checkpoint"] == 0.0
    assert families(snapshot)["jaxobs_run_seconds_total"]["checkpoint",] == 2.0
    check(snapshot, {})


def test_runs_while_their_module_is_decoded_are_no_unknown_work() -> None:
    fold = applied(new_fold(), [backend(), created(1)])
    fold.bind_peaks("example", PEAKS)
    applied(fold, [step(0, 0.0, 1.0, runs=(1,)), StepCompleted("train", 0, at(1), 0)])
    fold.snapshot(at(1))
    fold.analysed(1, module(matrix=1e12))
    loop = fold.snapshot(at(2)).to_dict()["loops"]["train"]
    assert loop["mfu"] == pytest.approx(1.0)
    assert loop["wall_seconds"] == pytest.approx(1.0)


def test_the_users_own_flops_go_into_the_mfu_and_not_into_the_hfu() -> None:
    fold = applied(new_fold(), [backend(), created(1)])
    fold.bind_peaks("example", PEAKS)
    fold.analysed(1, module(matrix=5e11))
    devices = len(backend().devices)
    declared = LoopDeclared("train", 4e11 * devices, at(0))
    applied(fold, [declared, step(0, 0.0, 1.0, runs=(1,)), StepCompleted("train", 0, at(1), 0)])
    loop = fold.snapshot(at(1)).to_dict()["loops"]["train"]
    assert (loop["mfu"], loop["hfu"]) == (pytest.approx(0.4), pytest.approx(0.5))


@pytest.mark.parametrize("flops", [0.0, -1.0, float("nan"), float("inf")])
def test_flops_that_are_no_positive_number_are_refused(flops: float) -> None:
    fold = applied(new_fold(), [LoopDeclared("train", flops, at(0))])
    assert fold.observation.refused == 1


def test_compiles_that_a_loop_begins_with_are_no_part_of_its_pace() -> None:
    """Two steps with a compile of 4 s in each, and eight of 100 ms."""
    first = [compiled(0.0, 4.0), step(0, 0.0, 4.1), compiled(4.1, 8.1), step(1, 4.1, 8.2)]
    rest = [step(i, 8.0 + 0.1 * i, 8.1 + 0.1 * i) for i in range(2, 10)]
    loop = applied(new_fold(), [*first, *rest]).snapshot(at(9.5)).to_dict()["loops"]["train"]
    assert loop["steps_per_second"] == pytest.approx(10.0)
    assert loop["steps_per_second_reason"] is None
    assert loop["components"]["compile"] == pytest.approx(8.0)


def test_compiles_later_on_are_part_of_the_pace_and_said_to_be() -> None:
    steps = [step(i, 0.1 * i, 0.1 * (i + 1)) for i in range(10)]
    fold = applied(new_fold(), [*steps, compiled(1.0, 1.9), step(10, 1.0, 2.0)])
    loop = fold.snapshot(at(2.1)).to_dict()["loops"]["train"]
    assert loop["steps_per_second"] == pytest.approx(5.5)
    assert "compiles took 45 %" in loop["steps_per_second_reason"]


def test_values_recorded_outside_marked_steps_go_to_the_loop_that_is_found() -> None:
    rows: list[Any] = []
    for number in range(1, 20):
        begin, end = at(number * 0.2), at(number * 0.2 + 0.01)
        rows += (UNMARKED, number, begin, end, 0, 0, end - begin, None, None, 1, -1)
    fold = applied(new_fold(), [FunctionWatched(-1, "train_step", "", at(0.1))])
    fold.apply_steps(rows[: 2 * 11])
    fold.apply(Recorded("", "loss", 3.0, at(0.5)))
    assert fold.snapshot(at(0.6)).to_dict()["loops"] == {}
    fold.apply_steps(rows[2 * 11 :])
    fold.apply(Recorded("", "loss", 2.0, at(4)))
    loops = fold.snapshot(at(5)).to_dict()["loops"]
    assert {name: loop["recorded"] for name, loop in loops.items()} == {"train_step": {"loss": 2.0}}
    assert loops["train_step"]["inferred"] is True
