"""Profiler windows in the fold: what a real trace of a GPU, and traces written by hand, say of loops and executables."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jaxobs.derive.fold import Fold
from jaxobs.derive.profiler_windows.loop_profile import ALONE, OLDEST, LoopProfile, valid_profile
from jaxobs.derive.profiler_windows.windows import PATIENCE
from jaxobs.model.clock import NANOSECONDS
from jaxobs.model.cost import Cost, OperationCost
from jaxobs.model.events import Compilation, LoopEnded, StepEnded
from jaxobs.report.flame_graph import leaves
from jaxobs.roofline_model.call_tree import MAX_REASON
from jaxobs.roofline_model.traced import HIDDEN
from jaxobs.trace import read_trace
from tests.derive.made_up import (
    PEAKS,
    applied,
    at,
    backend,
    check,
    families,
    main_thread,
    new_fold,
    step,
)
from tests.derive.traced import (
    COMPUTE,
    MEMORY,
    SLOW,
    TINY,
    cost_of,
    device,
    fold_with_steps,
    loop_of,
    modules_of,
    operation,
    profiled_fold,
    read,
    trace_of,
    window,
)

RECORDED = Path(__file__).parents[1] / "trace" / "data" / "mi300x_8gpu_conv3d.xplane.pb"


def test_a_window_waits_until_the_step_that_holds_it_has_ended() -> None:
    fold = applied(new_fold(), [step(0, 1.0, 2.0), window(1.5, 2.5)])
    assert fold.profiles.to_read(at(2.6)) == []
    fold.apply(step(1, 2.0, 3.0))
    (told,) = fold.profiles.to_read(at(3.1))
    assert set(told.stretches) == {"train"}
    assert fold.profiles.to_read(at(3.1)) == []


@pytest.mark.parametrize("why", ["the loop ended", "nothing came for minutes", "the job ended"])
def test_a_window_does_not_wait_for_ever(why: str) -> None:
    fold = applied(new_fold(), [step(0, 1.0, 2.0), window(1.5, 2.5)])
    now = at(2.6)
    if why == "the loop ended":
        fold.apply(LoopEnded("train", at(2.55), 0))
    elif why == "nothing came for minutes":
        now += PATIENCE
    assert len(fold.profiles.to_read(now, final=why == "the job ended")) == 1


def test_a_window_makes_a_loop_decidable_that_watches_nothing() -> None:
    fold = fold_with_steps()
    assert loop_of(fold)["components"]["unknown"] == pytest.approx(4.0)
    assert loop_of(fold)["profile_reason"]
    fold = profiled_fold([operation("dot", 0.8, runs=10)], cost_of(("dot", COMPUTE, 1)))
    loop = loop_of(fold)
    assert loop["bottleneck"]["label"] == "compute"
    assert loop["bottleneck"]["shares"]["compute"] == pytest.approx(0.8)
    assert loop["bottleneck"]["shares"]["unknown"] == pytest.approx(0.2)  # idle, and nobody saw the host
    assert loop["device_idle"] == pytest.approx(0.2)
    assert loop["components"]["compute"] == pytest.approx(3.2)
    assert loop["profile"]["steps"] == pytest.approx(10)


LABELS: dict[str, Any] = {
    "compute": ([operation("dot", 0.8, runs=10)], cost_of(("dot", COMPUTE, 1)), {}),
    "memory": ([operation("add", 0.8, runs=10)], cost_of(("add", MEMORY, 1)), {}),
    "latency": ([operation("add", 0.8, runs=10_000)], cost_of(("add", TINY, 1)), {}),
    "communication": (
        [operation("all-reduce", 0.8, runs=10, kind="collective")],
        cost_of(("all-reduce", TINY, 1)),
        {},
    ),
    "transfer": ([operation("MemcpyH2D", 0.8, runs=10, kind="transfer", instruction=False)], cost_of(), {}),
    "unmodelled": ([operation("sort", 0.8, runs=10)], cost_of(("sort", TINY, 1)), {}),
    "kernel": ([operation("kernel", 0.8, runs=10, instruction=False)], cost_of(), {}),
    "slow products": ([operation("dot", 0.8, runs=10)], cost_of(("dot", SLOW, 1)), {}),
    "processor taken away": (
        [operation("dot", 0.8, runs=10)],
        cost_of(("dot", Cost(matrix_flops_by_type={"float32": 1e3}), 1)),
        {},
    ),
    "host": ([operation("dot", 0.1, runs=10)], cost_of(("dot", COMPUTE, 1)), {}),
}


@pytest.mark.parametrize("label", LABELS)
def test_the_label_is_what_the_operations_say(label: str) -> None:
    operations, module, more = LABELS[label]
    fold = profiled_fold(operations, module, **more)
    fold.apply(main_thread(1, 5, processor=4.0))
    verdict = loop_of(fold)["bottleneck"]
    other = {"kernel": "unmodelled", "slow products": "compute", "processor taken away": "unknown"}
    assert verdict["label"] == other.get(label, label)
    assert verdict["confidence"] > 0.3 or verdict["label"] in {"unmodelled", "unknown"}


def test_time_between_the_operations_of_a_run_is_latency() -> None:
    fold = profiled_fold([operation("dot", 0.2, runs=10)], cost_of(("dot", COMPUTE, 1)), gap=0.6)
    verdict = loop_of(fold)["bottleneck"]
    assert verdict["label"] == "latency"
    assert verdict["shares"]["latency"] == pytest.approx(0.6)


def test_an_old_window_and_one_of_other_executables_no_longer_hold() -> None:
    fold = profiled_fold([operation("dot", 0.8, runs=10)], cost_of(("dot", COMPUTE, 1)))
    assert fold.profiles.of("train", at(5), {}).value is not None
    assert (
        fold.profiles.of("train", at(3) + ALONE, {}).value is not None
    )  # windows that cost much come as seldom
    assert fold.profiles.of("train", at(3) + ALONE + 1, {}).value is None
    fold = profiled_fold([operation("dot", 0.8, runs=10)], cost_of(("dot", COMPUTE, 1)))
    fold.apply(Compilation("f", 2, 1, at(5.05), (), "off", "shape", (), None))
    fold.apply(step(40, 5.0, 5.1))
    fold.snapshot(at(5.2))
    assert fold.loops.by_name["train"].profile.value is None
    assert loop_of(fold, 5.2)["profile"] is None


def test_of_several_windows_an_old_one_no_longer_holds() -> None:
    windows = deque(LoopProfile(at(second), 1, steps=1.0) for second in (1, 2, 300))
    for after, left in ((at(1) + OLDEST, 3), (at(1) + OLDEST + 1, 2), (at(300) + OLDEST + 1, 1)):
        whole = valid_profile(windows, after, {})
        assert whole is not None
        assert whole.windows == left


def test_runs_and_seconds_of_what_is_not_watched_are_marked_as_sampled() -> None:
    fold = profiled_fold([operation("dot", 0.8, runs=10)], cost_of(("dot", COMPUTE, 1)))
    (made,) = fold.snapshot(at(5.1)).to_dict()["executables"]
    assert (made["source"], made["runs"], made["seconds"]) == ("sampled", 10, pytest.approx(0.8))
    assert made["seconds_per_run"] == pytest.approx(0.08)
    assert made["efficiency"] == pytest.approx(0.125)
    assert made["bottleneck"]["label"] == "compute"


def test_of_what_is_not_watched_no_mfu_is_known() -> None:
    fold = profiled_fold([operation("dot", 0.8, runs=10)], cost_of(("dot", COMPUTE, 1)))
    loop = loop_of(fold)
    assert (loop["mfu"], loop["mfu_reason"]) == (
        None,
        "no function of the loop is watched: wrap it in obs.watch()",
    )


def test_measured_repetitions_stand_for_those_the_module_does_not_tell() -> None:
    operations = [operation("body", 0.6, runs=70), operation("while", 0.1, runs=10, kind="control")]
    fold = profiled_fold(operations, cost_of(("body", COMPUTE, 1), exact=False))
    (made,) = fold.snapshot(at(5.1)).to_dict()["executables"]
    assert made["cost"]["flops"] == pytest.approx(7e10)
    assert made["cost"]["exact"] is False
    assert "seen in profiler windows" in made["cost"]["inexact_reasons"][0]
    assert made["bound_seconds"] == pytest.approx(0.07)
    assert made["bound_seconds_reason"] is None


def test_repetitions_inside_an_operation_that_hides_others_are_not_measured() -> None:
    operations = [operation("call", 0.8, runs=10, kind="control")]
    fold = profiled_fold(operations, cost_of(("body", COMPUTE, 1), exact=False))
    (made,) = fold.snapshot(at(5.1)).to_dict()["executables"]
    assert (made["cost"]["flops"], made["cost"]["inexact_reasons"]) == (pytest.approx(1e10), ["loop w"])
    assert "lower bound" in made["bound_seconds_reason"]


@pytest.mark.parametrize(("exact", "label"), [(True, "compute"), (False, "unmodelled")])
def test_what_hides_a_loop_that_was_counted_once_is_not_limited_by_what_was_counted(
    exact: bool, label: str
) -> None:
    """It took far longer than one iteration must."""
    fold = profiled_fold(
        [operation("call", 0.8, runs=10, kind="control")], cost_of(("body", SLOW, 1), exact=exact)
    )
    (row,) = fold.snapshot(at(5.1)).to_dict()["operations"]
    assert (row["bottleneck"], row["exact"]) == (label, exact)
    assert exact or "lower bound" in row["efficiency_reason"]


def test_a_command_buffer_is_set_against_the_whole_of_what_was_not_seen() -> None:
    hidden = operation("CudaGraph", 0.8, runs=10, kind="command_buffer", instruction=False)
    fold = profiled_fold([hidden], cost_of(("dot", COMPUTE, 2), ("add", MEMORY, 1)))
    snapshot = fold.snapshot(at(5.1)).to_dict()
    (row,) = snapshot["operations"]
    assert row["flops"] == pytest.approx(2e11)
    assert (row["bottleneck"], row["efficiency"]) == ("compute", pytest.approx(0.3 / 0.8))
    assert "was not seen" in row["reason"]
    assert snapshot["loops"]["train"]["bottleneck"]["label"] == "compute"


def test_a_scope_says_that_a_call_is_set_against_work_that_may_not_be_its_own() -> None:
    module = cost_of(("dot", COMPUTE, 2), ("seen", COMPUTE, 1))
    call = OperationCost("call", "call", "", "attention", "model.py:9", 0.0, Cost())
    module = replace(module, without_work=(call,))
    ran = [operation("call", 0.8, runs=10), operation("seen", 0.1, runs=10)]
    device_time = profiled_fold(ran, module).snapshot(at(5.1)).to_dict()["device_time"]
    rows = {row["name"]: row for row in device_time["by_scope"]}
    assert (rows["attention"]["flops"], rows["attention"]["reason"]) == (
        pytest.approx(2e11),
        HIDDEN[:MAX_REASON],
    )
    assert (rows["layer"]["flops"], rows["layer"]["reason"]) == (pytest.approx(1e11), None)


def test_metrics_of_operations_scopes_and_windows() -> None:
    operations = [operation("dot", 0.6, runs=10), operation("kernel", 0.2, runs=10, instruction=False)]
    fold = profiled_fold(operations, cost_of(("dot", COMPUTE, 1)))
    snapshot = fold.snapshot(at(5.1))
    shown = families(snapshot)
    assert shown["jaxobs_operation_sampled_seconds_total"]["f", "dot", "dot"] == pytest.approx(0.6)
    assert shown["jaxobs_operation_sampled_flops_total"]["f", "dot", "dot"] == pytest.approx(1e11)
    assert shown["jaxobs_operation_sampled_bytes_total"]["f", "dot", "dot"] == pytest.approx(1e7)
    for metric in ("jaxobs_operation_sampled_flops_total", "jaxobs_operation_sampled_bytes_total"):
        assert {labels[1] for labels in shown[metric]} == {
            "dot"
        }  # what `kernel` does is not modelled, and not 0
    assert shown["jaxobs_operation_info"] == {
        ("f", "dot", "layer", "model.py:1"): 1.0, ("f", "kernel", "", ""): 1.0,
    }  # fmt: skip
    assert shown["jaxobs_unmodelled_ratio"]["f",] == pytest.approx(0.25)
    assert shown["jaxobs_profiled_seconds_total"]["train",] == pytest.approx(1.0)
    assert shown["jaxobs_profiled_steps_total"]["train",] == pytest.approx(10)
    assert shown["jaxobs_profile_windows_total"]["read",] == 1.0
    scopes = {row["name"]: row for row in snapshot.to_dict()["device_time"]["by_scope"]}
    assert scopes["layer"]["share"] == pytest.approx(0.75)


def test_device_time_by_call_path_adds_up_to_that_of_all_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jaxobs.derive.profiler_windows.operations.KEPT", 4)
    names = [f"op{number}" for number in range(8)]
    module = cost_of(*((name, COMPUTE, 1) for name in names))
    fold = profiled_fold([operation(name, 0.01 * (8 - at), runs=10) for at, name in enumerate(names)], module)
    document = fold.snapshot(at(5.1)).to_dict()
    assert len(document["operations"]) < len(names)
    for rows in document["device_time"].values():
        assert sum(path[-1]["seconds"] for path in leaves(rows)) == pytest.approx(0.36)
        assert sum(path[-1]["share"] for path in leaves(rows)) == pytest.approx(1.0)
        assert sum(path[-1]["flops"] for path in leaves(rows)) == pytest.approx(8e11)
        (rest,) = [path[-1] for path in leaves(rows) if path[-1]["name"] == "(other)"]
        assert rest["seconds"] == pytest.approx(0.01 * sum(range(1, 7)))


def test_a_window_that_cannot_be_read_is_counted_and_changes_nothing_else() -> None:
    fold = applied(fold_with_steps(), [window(2.0, 3.0)])
    (told,) = fold.profiles.to_read(at(5))
    fold.profiles.read(told, None, "a line is corrupted")
    snapshot = fold.snapshot(at(5.1))
    shown = families(snapshot)["jaxobs_profile_windows_total"]
    assert (shown["unreadable",], shown["read",]) == (1.0, 0.0)
    assert "a line is corrupted" in snapshot.to_dict()["loops"]["train"]["profile_reason"]
    assert snapshot.to_dict()["operations"] is None


def test_of_windows_that_no_longer_hold_it_is_not_said_that_the_last_could_not_be_read() -> None:
    module = cost_of(("dot", COMPUTE, 1))
    fold = applied(fold_with_steps(), [window(1.5, 1.9), window(2.0, 3.0)])
    fold.analysed(1, module)
    unreadable, told = fold.profiles.to_read(at(5))
    fold.profiles.read(unreadable, None, "a line is corrupted")
    read(fold, told, trace_of(device([operation("dot", 0.8, runs=10)])), lambda *_: module)
    found = fold.profiles.of("train", at(3) + ALONE + 1, {})
    assert (found.value, found.reason) == (None, "no profiler window that holds for this loop has been read")


def test_many_operations_fold_into_others_and_no_counter_falls() -> None:
    fold = Fold(
        new_fold().series.catalogue, new_fold().clock, at(0), {}, {}, 200
    )  # five operations of their own
    fold.apply(backend())
    fold.bind_peaks("example", PEAKS)
    before: dict[tuple[str, ...], float] = {}
    for turn in range(3):
        names = [f"op{number}" for number in range(20)]
        operations = [
            operation(name, 0.01 * (number + 1 + turn), runs=10) for number, name in enumerate(names)
        ]
        module = cost_of(*((name, COMPUTE, 1) for name in names))
        fold.apply(window(2.0 + turn, 2.5 + turn))
        (told,) = fold.profiles.to_read(at(100), final=True)
        read(fold, told, trace_of(device(operations)), lambda *_, module=module: module)
        snapshot = fold.snapshot(at(5 + turn))
        before = check(snapshot, before)
    shown = families(snapshot)["jaxobs_operation_sampled_seconds_total"]
    assert len(shown) == 6
    assert shown["__other__", "__other__", "__other__"] > 0
    assert sum(shown.values()) == pytest.approx(sum(0.01 * (n + 1 + t) for n in range(20) for t in range(3)))


def test_a_real_trace_of_eight_gpus_adds_up_in_the_fold() -> None:
    first, last = 0.0016, 0.1401  # its first operation begins, and its last one ends
    fold = applied(new_fold(), [backend()])
    fold.bind_peaks("example", PEAKS)
    began, ended = at(1 + first), at(1 + last)
    fold.apply(StepEnded("train", 0, began, ended, 0, 0, 0, 0, 0, None, None, False, 1, (), None))
    fold.apply(window(1.0, 1.0 + last + 1, RECORDED.read_bytes()))
    (told,) = fold.profiles.to_read(at(3 + last), final=True)
    trace = read_trace(RECORDED.read_bytes(), stretches=told.stretches)
    read(fold, told, trace, modules_of(trace))
    snapshot = fold.snapshot(at(3 + last)).to_dict()
    busy = sum(one.busy_seconds for one in trace.devices)
    assert sum(row["seconds"] for row in snapshot["operations"]) == pytest.approx(busy)
    profile = snapshot["loops"]["train"]["profile"]
    assert profile["busy_seconds"] == pytest.approx(busy / 8, rel=1e-3)
    assert profile["seconds"] == pytest.approx((ended - began) / NANOSECONDS)
    assert sum(profile["seconds_by_bottleneck"].values()) == pytest.approx(
        profile["busy_seconds"] + profile["gap_seconds"]
    )
    assert 0 < profile["gap_seconds"] < 0.02 * profile["busy_seconds"]
    row = next(row for row in snapshot["operations"] if row["operation"] == "input_transpose_fusion")
    assert (row["function"], row["executions"]) == ("forward_3d_conv", 40)
    lines = [row[key].rpartition("/")[2] for key in ("source", "called_from")]
    assert lines == ["generate_conv_trace.py:23", "generate_conv_trace.py:79"]


@pytest.mark.parametrize(("busy", "shown"), [(0.9, True), (0.2, False)])
def test_steps_longer_than_a_window_have_operations_where_most_of_its_time_was_recorded(
    busy: float, shown: bool
) -> None:
    """A window of a second lies in a step of ten; an operation that goes on at its edges is not recorded."""
    fold = fold_with_steps(count=3, seconds=10.0)
    made = cost_of(("dot", COMPUTE, 1), ("add", MEMORY, 1))
    fold.analysed(1, made)
    fold.apply(window(12.0, 13.0))
    (told,) = fold.profiles.to_read(at(31))
    rows = [operation("dot", 0.75 * busy, runs=3), operation("add", 0.25 * busy, runs=3)]
    one = device(rows, runs=0)
    cut = replace(one, modules=(replace(one.modules[0], runs=0, cut_runs=1, cut_seconds=busy),))
    read(fold, told, trace_of(cut), lambda *_: made)
    document = fold.snapshot(at(31)).to_dict()
    seen = {row["operation"]: row["share"] for row in document["operations"] or ()}
    assert seen == (pytest.approx({"dot": 0.75, "add": 0.25}) if shown else {})
    shares = document["loops"]["train"]["bottleneck"]["shares"]
    if shown:
        assert shares["compute"] == pytest.approx(0.75 * busy)
        assert shares["memory"] == pytest.approx(0.25 * busy)
    else:
        assert document["loops"]["train"]["profile"] is None
    assert document["executables"][0]["seconds_per_run"] is None
