"""Loops whose host runs ahead of the device: what a window of them says, and where their time goes."""

from __future__ import annotations

from collections import Counter

from jaxobs.derive.profiler_windows.loop_profile import LoopProfile, Part
from jaxobs.derive.profiler_windows.parts import parts_of
from jaxobs.trace.attribution import stretch_time
from tests.derive.made_up import at
from tests.derive.test_window_parts import loop, span


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
    assert profile(steps=30, seconds=0.04, runs=8, per_run=0.005, calls=30).host_is_ahead
    assert not profile(steps=8, seconds=0.04, runs=8, per_run=0.005, calls=8).host_is_ahead
    # one run at either edge of the window is cut
    assert not profile(steps=2, seconds=0.04, runs=1, per_run=0.02, calls=2).host_is_ahead


def test_a_device_that_is_busy_in_checkpoints_shows_that_the_host_waited_for_it_there() -> None:
    """A window may lie wholly in the one step that copies the state, for which it waits."""
    assert profile(steps=0.5, seconds=0.05, runs=9, per_run=0.005, active=0.001).host_is_ahead
    assert not profile(steps=8, seconds=0.04, runs=8, per_run=0.005, active=0.035).host_is_ahead


def test_a_profile_says_whether_the_host_is_ahead() -> None:
    calls = (profile(steps=8, seconds=0.16, runs=8, per_run=0.02, calls=calls) for calls in (8, 30))
    assert [found.to_dict()["host_is_ahead"] for found in calls] == [False, True]


def test_the_edges_of_a_window_are_idle_no_longer_than_its_longest_operation() -> None:
    second = 10**12
    intervals = [(2 * second, 4 * second, 0), (5 * second, 6 * second, 0)]
    found = stretch_time([(0.0, 10.0)], intervals, [], ["compute"], [0])
    assert found.edge_seconds == 2.0 + 2.0  # of 2 s before the first and 4 s after the last one
    assert stretch_time([(0.0, 10.0)], [], [], ["compute"], [0]).edge_seconds == 0.0
