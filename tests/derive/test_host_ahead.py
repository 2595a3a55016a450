"""Loops whose host runs ahead of the device: what a window of them says, and where their time goes."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.derive.loops.timing.in_flight import IN_FLIGHT
from jaxobs.derive.loops.wall_time.components import components_of
from jaxobs.derive.loops.wall_time.host_evidence import HostShares
from jaxobs.derive.loops.wall_time.traced_steps import host_is_ahead
from jaxobs.derive.loops.wall_time.window import Slice
from jaxobs.derive.profiler_windows.loop_profile import LoopProfile, Part
from jaxobs.derive.profiler_windows.parts import parts_of
from jaxobs.derive.profiler_windows.view import profile_view
from jaxobs.model.events import Event, ExecutableRan, FunctionWatched
from jaxobs.trace.attribution import stretch_time
from tests.derive.made_up import PEAKS, applied, at, backend, created, main_thread, module, new_fold, step
from tests.derive.test_step_times import completed
from tests.derive.test_window_parts import loop, span


def no_executable(run: int) -> None:
    """Which one ran is not visible."""


def profile(
    *, steps: float, seconds: float, runs: float, per_run: float, calls: float | None = None, active: float | None = None
) -> LoopProfile:  # fmt: skip
    """The device was busy throughout; each whole step called its one function `calls` times over all of them."""
    part = Part("f", runs, Counter({"compute": seconds}), per_run * runs, calls)
    return LoopProfile(
        time=at(1), windows=1, steps=steps, seconds=seconds, active_seconds=seconds if active is None else active,
        busy_seconds=seconds, whole_steps=steps if calls is not None else 0.0, parts={"a": part},
    )  # fmt: skip


def test_short_turns_beside_a_long_one_do_not_stand_for_the_loop() -> None:
    """Nine steps are dispatched in a moment, and the tenth waits for the device."""
    steps = [span(number / 1000, (number + 1) / 1000) for number in range(9)] + [span(0.009, 0.6)]
    part = parts_of(at(0), at(0.13), {"train": loop(*steps)})["train"]
    assert not part.whole
    assert part.spans == ((at(0), at(0.13)),)
    assert (part.whole_steps, part.whole_spans) == (9, ((at(0), at(0.009)),))


def test_steps_of_about_one_length_are_whole_steps() -> None:
    steps = [span(number / 10, (number + 1) / 10) for number in range(10)]
    assert parts_of(at(0.05), at(0.55), {"train": loop(*steps)})["train"].whole


def test_more_calls_than_runs_tell_that_the_host_is_ahead() -> None:
    lately = Slice(at(2), 6.1, 100)
    assert host_is_ahead(profile(steps=30, seconds=0.04, runs=8, per_run=0.005, calls=30), lately)
    assert not host_is_ahead(profile(steps=8, seconds=0.04, runs=8, per_run=0.005, calls=8), lately)
    # one run at either edge of the window is cut
    assert not host_is_ahead(profile(steps=2, seconds=0.04, runs=1, per_run=0.02, calls=2), lately)


def test_a_device_that_works_while_the_loop_saves_tells_that_the_save_waits_for_it() -> None:
    inside_a_save = profile(steps=0.2, seconds=0.14, runs=8, per_run=0.0175, active=0.004)
    between_saves = profile(steps=8, seconds=0.16, runs=8, per_run=0.02, calls=8)
    lately = Slice(at(2), 8.0, 400, checkpoint=6.4)
    assert host_is_ahead(inside_a_save, lately)
    assert host_is_ahead(between_saves, lately)
    # the device is idle while this one saves: its steps take as long as they do between saves
    assert not host_is_ahead(between_saves, Slice(at(2), 8.0, 80, checkpoint=6.4))
    assert not host_is_ahead(between_saves, Slice(at(2), 8.0, 400))


def test_the_work_of_a_loop_that_runs_ahead_is_that_of_the_runs_it_calls() -> None:
    dispatching = profile(steps=30, seconds=0.04, runs=8, per_run=0.005, calls=30)
    piece = Slice(at(2), 1.25, 50)  # a step of the loop logs for a second now and then
    components = components_of(
        piece, no_executable, dispatching, all_watched=False, ahead=True, host=HostShares(1.0)
    ).components
    assert components["compute"] == pytest.approx(50 * 0.005)
    assert components["host"] == pytest.approx(1.0)


def test_what_the_device_does_comes_before_a_save_that_waits_for_it() -> None:
    inside_a_save = profile(steps=0.2, seconds=0.14, runs=8, per_run=0.0175, active=0.004)
    piece = Slice(at(2), 0.85, 40, checkpoint=0.68)
    components = components_of(piece, no_executable, inside_a_save, all_watched=False, ahead=True).components
    assert components["compute"] == pytest.approx(0.85)
    assert components["checkpoint"] == pytest.approx(0.0)


@given(
    st.lists(st.tuples(st.integers(0, 60), st.floats(0.0, 3.0)), min_size=1, max_size=12),
    st.floats(0.001, 0.2),
)
def test_no_device_time_is_lost_or_made_from_slice_to_slice(
    slices: list[tuple[int, float]], per_run: float
) -> None:
    """Steps dispatched in one slice may run in the next one. What is still unattributed is bounded."""
    dispatching = profile(steps=30, seconds=0.04, runs=8, per_run=per_run, calls=30)
    unattributed: dict[str, float] = {}
    charged = 0.0
    for steps, wall in slices:
        found = components_of(
            Slice(at(2), wall, steps),
            no_executable,
            dispatching,
            all_watched=False,
            ahead=True,
            unattributed=unattributed,
        )
        unattributed = dict(found.unattributed)
        charged += found.components["compute"]
        assert math.isclose(sum(found.components.values()), wall, rel_tol=1e-9, abs_tol=1e-9)
        if steps:
            assert sum(unattributed.values()) <= IN_FLIGHT * per_run * (1 + 1e-9)
    assert charged + sum(unattributed.values()) <= per_run * sum(steps for steps, _ in slices) * (1 + 1e-9)


def test_device_time_of_watched_runs_is_charged_when_the_device_has_had_the_time() -> None:
    """Forty runs of 20 ms are dispatched in a moment; a checkpoint then waits for them."""
    fold = applied(new_fold(), [created(1)])
    fold.bind_peaks("example", PEAKS)
    fold.apply(ExecutableRan(1, 0.02, 0.0, at(0)))
    fold.apply(FunctionWatched(1, "f", "", at(0)))
    for number in range(40):
        fold.apply(step(number, number / 1000, (number + 1) / 1000, runs=(1,)))
    first = dict(fold.snapshot(at(0.04)).to_dict()["loops"]["train"]["components"])
    fold.apply(step(40, 0.04, 0.9, checkpoint=0.85, runs=(1,)))
    second = fold.snapshot(at(1)).to_dict()["loops"]["train"]["components"]
    device = sum(first[word] for word in first if word not in {"host", "checkpoint"})
    assert device == pytest.approx(0.04)
    assert second["checkpoint"] == pytest.approx(0.9 - 41 * 0.02, abs=1e-6)


def test_no_time_of_a_run_is_taken_from_completions_around_a_checkpoint() -> None:
    fold = applied(new_fold(), [created(1)])
    for number in range(40):
        fold.apply(step(number, number / 1000, (number + 1) / 1000, runs=(1,)))
    fold.apply(step(40, 0.04, 0.9, checkpoint=0.85, runs=(1,)))
    fold.apply(step(41, 0.9, 0.901, runs=(1,)))
    for event in (completed(1, 0.04), completed(41, 0.92)):
        fold.apply(event)
    document = fold.snapshot(at(1)).to_dict()
    assert document["loops"]["train"]["step_seconds"] is None
    assert [one["seconds_per_run"] for one in document["executables"]] == [None]


def test_a_loop_with_a_checkpoint_between_any_two_completions_has_its_hosts_turns_for_step_time() -> None:
    """The host waits for the device in each step, so that its turn is the step."""
    fold = new_fold()
    for number in range(40):
        fold.apply(step(number, number, number + 1, checkpoint=0.5, runs=(1,)))
        if number % 4 == 3:
            fold.apply(completed(number, number + 0.9))
    loop = fold.snapshot(at(40)).to_dict()["loops"]["train"]
    assert (loop["step_seconds"], loop["step_seconds_source"]) == (pytest.approx(1.0), "completions")


def test_checkpoints_that_wait_for_the_device_leave_a_steady_pace_and_so_a_sure_label() -> None:
    """Twenty runs of 20 ms are dispatched in 2 ms, and later in 10; a checkpoint then waits for them."""
    fold = applied(new_fold(), [backend(), created(1)])
    fold.bind_peaks("example", PEAKS)
    fold.analysed(1, module(matrix=1.6e10, moved=1e6), "")
    fold.apply(FunctionWatched(1, "f", "", at(0)))
    now, number = 0.0, 0
    for cycle in range(30):
        turn = 1e-4 if cycle < 10 else 5e-4
        for _ in range(20):
            fold.apply(step(number, now, now + turn, runs=(1,)))
            now, number = now + turn, number + 1
        rest = 21 * 0.02 - 20 * turn
        fold.apply(step(number, now, now + rest, checkpoint=rest, runs=(1,)))
        now, number = now + rest, number + 1
        if cycle < 10:
            fold.apply(ExecutableRan(1, 0.02, 0.0, at(now)))
        fold.snapshot(at(now))
    told = fold.snapshot(at(now + 0.1)).to_dict()["loops"]["train"]["bottleneck"]
    assert (told["label"], told["runner_up"]) == ("compute", None)
    assert told["confidence"] > 0.4  # its executable is charged as a whole


def test_a_hosts_turns_are_not_compared_with_traced_ones_where_it_runs_ahead() -> None:
    found = profile(steps=8, seconds=0.16, runs=8, per_run=0.02, calls=8)
    steady, ahead = (profile_view(found, 0.01, host_is_ahead=ahead) for ahead in (False, True))
    assert steady.slowdown.value == pytest.approx(2.0)
    assert ahead.slowdown.value is None
    assert "ahead" in (ahead.slowdown.reason or "")
    assert (steady.host_is_ahead, ahead.host_is_ahead) == (False, True)


def test_the_edges_of_a_window_are_idle_no_longer_than_its_longest_operation() -> None:
    second = 10**12
    intervals = [(2 * second, 4 * second, 0), (5 * second, 6 * second, 0)]
    found = stretch_time([(0.0, 10.0)], intervals, [], ["compute"], [0])
    assert found.edge_seconds == 2.0 + 2.0  # of 2 s before the first and 4 s after the last one
    assert stretch_time([(0.0, 10.0)], [], [], ["compute"], [0]).edge_seconds == 0.0


def test_a_host_that_is_seen_to_wait_for_the_device_leaves_no_doubt_that_it_works() -> None:
    """Most runs were timed in the first second, whose last steps were done in the next: its pace seems twice as fast."""
    run, ahead, groups = 0.027, 20, 20
    told: list[tuple[float, Event]] = []
    for group in range(groups):
        begun = 1.0 + group * ahead * run
        for turn in range(ahead):
            start = begun + turn / 1000
            end = start + 1 / 1000 if turn < ahead - 1 else begun + ahead * run
            told.append((end, step(group * ahead + turn, start, end, runs=(1,))))
        done = begun + 8 * run
        told.append((done, completed(group * ahead + 7, done)))
        told.append(
            (begun + ahead * run, main_thread(begun, begun + ahead * run, dispatch=0.02, device=0.52))
        )
        if group in {0, 1, 12}:
            told += [(done, ExecutableRan(1, run, 0.0005, at(done)))] * (6 if group < 2 else 3)
    fold = applied(new_fold(), [backend(), created(1), FunctionWatched(-1, "f", "", at(0))])
    fold.bind_peaks("example", PEAKS)
    fold.analysed(1, module(matrix=2e10))
    second = 2
    for time, event in sorted(told, key=lambda one: one[0]):
        while time > second:
            fold.snapshot(at(second))
            second += 1
        fold.apply(event)
    verdict = fold.snapshot(at(second)).to_dict()["loops"]["train"]["bottleneck"]
    assert verdict["label"] == "compute"
    assert verdict["confidence"] > 0.4  # at most 0.5, as long as no window tells of its operations
