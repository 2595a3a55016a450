"""Device time from windows and samples, charged by what its operations were limited by."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jaxobs.derive.executables.registry import Executables
from jaxobs.derive.loops.bottleneck import NO_BOUND, Known, charged, split, untraced
from jaxobs.derive.loops.stretches import Stretch
from jaxobs.derive.profiler_windows.loop_profile import LoopProfile, Part
from jaxobs.hardware.peaks import Peaks
from jaxobs.model.events import ExecutableRan, FunctionWatched
from jaxobs.vocabulary.activities import DEVICE, PROCESSOR, WAITING
from jaxobs.vocabulary.words import COMPONENTS
from tests.derive.made_up import PEAKS, at, created, module

words = st.sampled_from(
    ["compute", "memory", "communication", "transfer", "latency", "unmodelled", "unknown"]
)
amounts = st.floats(0.0, 100.0)
runs = st.just(0.0) | st.floats(0.01, 50.0)  # a thousand devices, of which one ran it once
parts = st.builds(Part, st.just("f"), runs, st.dictionaries(words, amounts, min_size=1).map(Counter))


@st.composite
def profiles(draw: st.DrawFn) -> LoopProfile:
    found = draw(st.dictionaries(st.sampled_from(["", "a", "b"]), parts))
    busy = sum(sum(part.seconds.values()) for part in found.values())
    waiting = draw(amounts)
    return LoopProfile(
        time=at(1), windows=1, steps=draw(st.floats(0.1, 100)), seconds=busy + waiting, active_seconds=busy + waiting,
        input_seconds=waiting, busy_seconds=busy, gap_seconds=draw(amounts),
        input_busy_seconds=draw(st.floats(0, 2)) * waiting, operations=draw(st.floats(0, 1e6)), parts=found,
        on_accelerator=draw(st.booleans()),
    )  # fmt: skip


def executables() -> Executables:
    """Of number 1 a run takes 10 ms; 2 was never timed; -1 is a watched function whose executable is not visible."""
    known = Executables()
    known.bind_peaks(PEAKS)
    for number, fingerprint in ((1, "a"), (2, "b")):
        known.created(created(number, f"f{number}"))
        known.analysed(number, module(fingerprint=fingerprint), "")
    known.watched(FunctionWatched(-1, "f", "several executables", at(0)))
    known.sampled(ExecutableRan(1, 0.01, 0.0, at(0.5)))
    return known


def stretch(
    wall: float, steps: int, runs: Mapping[int, int] = MappingProxyType({}), **parts: float
) -> Stretch:
    """Each run lies somewhere in it."""
    within = Counter(dict.fromkeys(runs, round(wall * 1e9)))
    return Stretch(wall=wall, steps=steps, runs=Counter(runs), within=within, **parts)  # type: ignore[arg-type]


def test_runs_too_short_to_be_timed_leave_the_rest_of_the_time_to_the_host() -> None:
    known = executables()
    known.sampled(ExecutableRan(2, 0.0005, 0.0005, at(0.5)))
    found = charged(stretch(10.0, 100, {2: 100}), Known(known, None, BUSY_HOST, 1.0, True))
    assert known.seconds_of(2) is None
    assert math.isclose(found.components["host"], 10.0 - 100 * 0.001)
    assert math.isclose(found.components["unknown"], 100 * 0.001)


def test_why_time_is_unknown_is_told_of_the_largest_part() -> None:
    """A helper that ran once was blamed, where the work that took all of the time had no bound time."""
    known = executables()
    known.bind_peaks(Peaks("cpu", {}, {}, None, None, (), None, None, "none were measured"))
    found = charged(stretch(1.0, 99, {1: 99, 2: 1}), Known(known, None, watched=True))
    assert math.isclose(found.components["unknown"], 1.0)
    assert found.reason == NO_BOUND
    found = charged(stretch(1.0, 9, {1: 9, 2: 1}), Known(known, None, watched=True))
    assert found.reason == "no run of f2 was timed"


def test_steps_of_a_watched_loop_that_run_nothing_leave_all_of_the_time_to_the_host() -> None:
    """It skips a bad batch, or waits for the last one."""
    found = charged(stretch(10.0, 100), Known(executables(), None, BUSY_HOST, 1.0, watched=True))
    assert math.isclose(found.components["host"], 10.0)
    assert found.idle == 0.0
    found = charged(stretch(10.0, 100), Known(executables(), None, BUSY_HOST, 1.0, watched=False))
    assert math.isclose(found.components["unknown"], 10.0)
    assert found.reason == "no function of the loop is watched: only profiler windows show the device's work"


shares = st.floats(0.0, 1.0)


@given(
    st.none() | profiles(), st.floats(0, 1e3), st.integers(0, 100), amounts, amounts, amounts,
    st.dictionaries(st.sampled_from([1, 2, 3, -1]), st.integers(1, 50)), st.booleans(), shares, shares, shares,
)  # fmt: skip
def test_each_second_is_charged_once(
    profile: LoopProfile | None, wall: float, steps: int, compiling: float, checkpoint: float, wait: float,
    runs: dict[int, int], watched: bool, idle: float, on_processor: float, blocked: float,
) -> None:  # fmt: skip
    piece = stretch(wall, steps, runs, compiling=compiling, checkpoint=checkpoint, input=wait)
    others = 1 - on_processor
    host = {PROCESSOR: on_processor, WAITING: others * blocked, DEVICE: others * (1 - blocked)}
    known = Known(executables(), profile, host, idle, bool(runs), None if watched else "g")
    found = charged(piece, known)
    assert set(found.components) == set(COMPONENTS)
    assert min(found.components.values()) >= 0.0
    assert math.isclose(sum(found.components.values()), wall, rel_tol=1e-9, abs_tol=1e-9)
    assert 0.0 <= found.as_whole <= wall * (1 + 1e-9)
    assert sum(found.spent.values()) <= wall * (1 + 1e-9)
    assert found.components["host"] <= (on_processor + others * blocked) * wall * (1 + 1e-9)
    assert found.components["unknown"] <= wall * 1e-9 or found.reason


@given(parts.filter(lambda part: part.runs > 0), st.floats(0.0, 1e3))
def test_a_run_is_split_without_loss(part: Part, per_run: float) -> None:
    found = split(part, per_run)
    assert math.isclose(sum(found.values()), per_run, rel_tol=1e-9, abs_tol=1e-12)
    assert min(found.values()) >= 0.0


@given(profiles(), st.floats(0, 1e3), st.integers(0, 100))
@example(
    LoopProfile(time=at(1), windows=1, steps=1.0, seconds=0.0, gap_seconds=5e-324, operations=1.0), 0.0, 1
)
def test_untraced_steps_take_no_longer_than_traced_ones(
    profile: LoopProfile, wall: float, steps: int
) -> None:
    factor, gaps = untraced(profile, stretch(wall, steps))
    assert 0.0 <= factor <= 1.0 + 1e-9
    assert 0.0 <= gaps * profile.steps <= profile.gap_seconds * (1 + 1e-9)


BUSY_HOST = {PROCESSOR: 1.0}
"""The main thread was on a processor all the time, as far as JAX did not keep it."""


def profile_of(busy: dict[str, float], **more: float) -> LoopProfile:
    """Of ten steps of 10 ms."""
    total = sum(busy.values())
    values: dict[str, Any] = {
        "steps": 10,
        "seconds": 0.1,
        "active_seconds": 0.1,
        "busy_seconds": total,
    } | more
    return LoopProfile(time=at(1), windows=1, parts={"a": Part("f", 10, Counter(busy))}, **values)


def of_unwatched(piece: Stretch, profile: LoopProfile) -> dict[str, float]:
    """The components of a loop of which nothing is watched, and whose host is busy."""
    return charged(piece, Known(executables(), profile, BUSY_HOST)).components


def test_what_a_window_found_holds_for_steps_that_were_not_watched() -> None:
    components = of_unwatched(stretch(1.0, 100), profile_of({"compute": 0.06, "memory": 0.02}))
    assert components["compute"] == pytest.approx(0.6)
    assert components["memory"] == pytest.approx(0.2)
    assert components["host"] == pytest.approx(0.2)
    assert components["unknown"] == 0.0


def test_the_times_of_runs_say_how_long_and_windows_say_with_what() -> None:
    profile = profile_of({"compute": 0.03, "memory": 0.01})
    # 10 ms each, of which traced operations explain 4 ms
    piece = stretch(1.0, 50, {1: 50})
    components = charged(piece, Known(executables(), profile, BUSY_HOST, 1.0, watched=True)).components
    assert components["compute"] == pytest.approx(0.15)
    assert components["memory"] == pytest.approx(0.05)
    assert components["latency"] == pytest.approx(0.3)  # the device waited between its operations
    assert components["host"] == pytest.approx(0.5)


def test_traced_runs_that_are_told_apart_say_what_lay_between_their_operations() -> None:
    part = Part("f", 10, Counter({"compute": 0.03, "memory": 0.01}), run_seconds=0.05)
    assert split(part, 0.01) == pytest.approx({"compute": 0.006, "memory": 0.002, "latency": 0.002})
    assert split(part, 0.001) == pytest.approx({"compute": 0.0006, "memory": 0.0002, "latency": 0.0002})


def test_tracing_makes_small_operations_longer_and_that_is_taken_off() -> None:
    # 10 000 a step: at most 7 ms of it is tracing
    components = of_unwatched(stretch(0.6, 100), profile_of({"latency": 0.08}, operations=100_000))
    assert components["latency"] == pytest.approx(0.4)
    assert components["host"] == pytest.approx(0.2)


@pytest.mark.parametrize(("gap", "left"), [(0.045, 0.005), (0.005, 0.0)])
def test_launches_that_tracing_slows_down_are_no_latency_of_a_gpu(gap: float, left: float) -> None:
    """Traced steps take 10 ms, as launching a kernel takes 20 µs, and untraced ones 6 ms."""
    profile = profile_of({"memory": 0.055}, gap_seconds=gap, operations=5_000, on_accelerator=True)
    components = of_unwatched(stretch(0.6, 100), profile)
    assert components["memory"] == pytest.approx(0.55)
    assert components["latency"] == pytest.approx(10 * left)
    as_long = of_unwatched(stretch(1.0, 100), profile)
    assert as_long["latency"] == pytest.approx(10 * gap)


def test_a_device_that_worked_while_the_loop_waited_leaves_less_to_the_input() -> None:
    profile = profile_of({"compute": 0.04}, input_seconds=0.05, input_busy_seconds=0.04)
    components = of_unwatched(stretch(1.0, 100, input=0.5), profile)
    assert components["input"] == pytest.approx(0.1)
    assert components["host"] == pytest.approx(0.5)


def test_a_wait_in_which_the_device_was_idle_is_never_the_devices() -> None:
    profile = profile_of({"compute": 0.06}, input_seconds=0.04)
    components = of_unwatched(stretch(1.0, 100, input=0.7), profile)
    assert components["input"] == pytest.approx(0.7)
    assert components["compute"] == pytest.approx(0.3)
    # Ten steps of 90 ms, of which 50 ms are a wait; a run takes 10 ms by its time, though 60 fit in.
    watched = Known(executables(), None, BUSY_HOST, idle_at_ends=1.0, watched=True)
    components = charged(stretch(0.9, 10, {1: 60}, input=0.5), watched).components
    assert components["input"] == pytest.approx(0.5)


def test_the_work_of_a_loop_that_runs_ahead_is_that_of_the_runs_it_calls() -> None:
    """Windows of it hold many dispatches and few runs."""
    part = Part("f", 8, Counter({"compute": 0.04}), 0.04, 30)
    dispatching = LoopProfile(
        time=at(1), windows=1, steps=30, seconds=0.04, active_seconds=0.04, busy_seconds=0.04, whole_steps=30,
        parts={"a": part},
    )  # fmt: skip
    assert dispatching.host_is_ahead
    components = of_unwatched(stretch(1.25, 50), dispatching)
    assert components["compute"] == pytest.approx(50 * 0.005)
    assert components["host"] == pytest.approx(1.0)
