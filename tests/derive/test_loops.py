"""Where a loop's wall time goes, how long its steps take, and what a window says."""

from __future__ import annotations

import math
from typing import Any

import pytest

from jaxobs.model.events import (
    UNMARKED,
    Compilation,
    Event,
    ExecutableRan,
    FunctionWatched,
    LoopDeclared,
    LoopEnded,
    PhaseEnded,
    Recorded,
    StepCompleted,
)
from jaxobs.vocabulary.text import read_json
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
    waits,
)


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

    fold = applied(new_fold(), [backend(), created(1, devices=2)])
    fold.bind_peaks("example", PEAKS)
    fold.analysed(1, module(matrix=1e10))
    applied(fold, [ExecutableRan(1, 0.05, 0.001, at(1)), waits()])
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


def test_without_peaks_there_is_no_bound_and_not_a_bound_of_zero_seconds() -> None:
    fold = applied(new_fold(), [backend(), created(1)])
    fold.bind_peaks("example", NO_PEAKS)
    fold.analysed(1, module())
    applied(fold, [waits(), step(0, 1.0, 2.0, runs=(1,))])
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
    applied(fold, [waits(), step(0, 1.0, 2.0, runs=(1, 2))])
    loop = fold.snapshot(at(3)).to_dict()["loops"]["train"]
    assert (loop["mfu"], loop["mfu_reason"]) == (None, "the cost of some runs is not known")
    fold = applied(new_fold(), [backend(), created(1)])
    fold.bind_peaks("example", PEAKS)
    fold.analysed(1, module())
    fold.apply(step(0, 1.0, 2.0, runs=(1, -1)))
    assert fold.snapshot(at(3)).to_dict()["loops"]["train"]["mfu"] is None


@pytest.mark.parametrize("value", [math.nan, 1e305, -1e305])
def test_a_loss_that_is_no_number_or_beyond_what_is_read_is_absent_with_its_reason(value: float) -> None:
    steps = [step(number, number / 10, (number + 1) / 10) for number in range(5)]
    fold = applied(
        new_fold(), [Recorded("", "loss", 2.5, at(0.1)), *steps, Recorded("", "loss", value, at(2))]
    )
    applied(fold, [step(5, 2.1, 2.2)])
    snapshot = fold.snapshot(at(3))
    recorded = snapshot.to_dict()["loops"]["train"]["recorded"]
    assert recorded["loss"] is None
    assert (
        recorded["loss_reason"]
        == "the last value is not finite, or beyond 1e+300 (so far 1 of those read, first after 5 steps)"
    )
    assert read_json(snapshot.to_json().encode()) == snapshot.to_dict()
    assert "jaxobs_recorded" not in families(snapshot)
    assert families(snapshot)["jaxobs_recorded_not_finite_total"] == {("train", "loss"): 1}


def test_a_lower_bound_is_said_to_be_one() -> None:
    fold = applied(new_fold(), [backend(), created(1)])
    fold.bind_peaks("example", PEAKS)
    fold.analysed(1, module(exact=False, inexact_reasons=("a loop's trip count is not known",)))
    applied(fold, [step(0, 1.0, 2.0, runs=(1,)), StepCompleted("train", 0, at(2), 0)])
    document = fold.snapshot(at(3)).to_dict()
    assert document["loops"]["train"]["mfu_reason"].startswith("a lower bound: a loop's trip count")
    assert document["executables"][0]["bound_seconds_reason"].startswith("a lower bound")


def test_phases_outside_steps_do_not_touch_the_loop() -> None:
    events: list[Event] = [
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
    fold = applied(new_fold(), [backend(), created(1, devices=2)])
    fold.bind_peaks("example", PEAKS)
    applied(fold, [step(0, 0.0, 1.0, runs=(1,)), StepCompleted("train", 0, at(1), 0)])
    fold.snapshot(at(1))
    fold.analysed(1, module(matrix=1e12))
    loop = fold.snapshot(at(2)).to_dict()["loops"]["train"]
    assert loop["mfu"] == pytest.approx(1.0)
    assert loop["wall_seconds"] == pytest.approx(1.0)


def test_mfu_is_of_all_local_devices_where_executables_run_on_some_of_them() -> None:
    """Two that run side by side, one on each device, are no two on one."""
    fold = applied(new_fold(), [backend(), created(1), created(2, "g")])
    fold.bind_peaks("example", PEAKS)
    for number in (1, 2):
        fold.analysed(number, module(matrix=1e10, fingerprint=str(number)))
    applied(fold, [waits(), *(step(i, i / 10, (i + 1) / 10, runs=(1, 2)) for i in range(10))])
    assert fold.snapshot(at(1)).to_dict()["loops"]["train"]["mfu"] == pytest.approx(0.1)


def test_the_users_own_flops_go_into_the_mfu_and_not_into_the_hfu() -> None:
    fold = applied(new_fold(), [backend(), created(1, devices=2)])
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


def test_values_recorded_between_passes_go_to_the_loop_whose_step_ended_last() -> None:
    events: list[Event] = [
        step(0, 1.0, 2.0, loop="finetune"),
        LoopEnded("finetune", at(2), 0),
        Recorded("", "acc", 0.5, at(3)),
    ]
    loops = applied(new_fold(), events).snapshot(at(4)).to_dict()["loops"]
    assert {name: loop["recorded"] for name, loop in loops.items()} == {"finetune": {"acc": 0.5}}


def test_a_loop_that_was_found_is_a_marked_one_once_its_steps_are_marked() -> None:
    fold = applied(new_fold(), [created(1, "train")])
    for number in range(1, 4):
        begin = at(number)
        fold.apply_steps([UNMARKED, number, begin, begin + 1_000, 0, 0, 1_000, None, None, 1, 1])
    assert fold.snapshot(at(4)).to_dict()["loops"]["train"]["inferred"] is True
    fold.apply_steps(["train", 0, at(4), at(5), 0, 0, 1_000, None, None, 1, 1])
    assert fold.snapshot(at(5)).to_dict()["loops"]["train"]["inferred"] is False
