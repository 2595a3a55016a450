"""Device time from windows and samples, charged by what its operations were limited by."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jaxobs.derive.executables.executable import Executable
from jaxobs.derive.executables.registry import Executables
from jaxobs.derive.loops.wall_time.components import components_of
from jaxobs.derive.loops.wall_time.host_evidence import HostShares
from jaxobs.derive.loops.wall_time.traced_steps import split, untraced
from jaxobs.derive.loops.wall_time.window import Slice
from jaxobs.derive.metrics.catalogue import CORE_METRICS
from jaxobs.derive.metrics.series import Series
from jaxobs.derive.profiler_windows.loop_profile import LoopProfile, Part
from jaxobs.model.events import ExecutableRan, FunctionWatched
from jaxobs.model.metrics import Catalogue
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
    )  # fmt: skip


def executables() -> Callable[[int], Executable | None]:
    """Of number 1 a run takes 10 ms; 2 was never timed; -1 is a watched function whose executable is not visible."""
    known = Executables(Series(Catalogue(CORE_METRICS), 100))
    known.bind_peaks(PEAKS)
    for number, fingerprint in ((1, "a"), (2, "b")):
        known.created(created(number))
        known.analysed(number, module(fingerprint=fingerprint), "")
    known.watched(FunctionWatched(-1, "f", "several executables", at(0)))
    known.runs.sampled(ExecutableRan(1, 0.01, 0.0, at(0.5)))
    return known.get


@given(
    st.none() | profiles(), st.floats(0, 1e3), st.integers(0, 100), amounts, amounts, amounts,
    st.dictionaries(st.sampled_from([1, 2, 3, -1]), st.integers(1, 50)).map(Counter), st.booleans(),
)  # fmt: skip
def test_components_add_up_to_the_wall_time(
    profile: LoopProfile | None, wall: float, steps: int, compiling: float, checkpoint: float, wait: float,
    runs: Counter[int], watched: bool,
) -> None:  # fmt: skip
    spent = {run: 0.01 * count for run, count in runs.items()}
    piece = Slice(
        at(2), wall, steps, compiling, checkpoint=checkpoint, input_wait=wait, runs=runs, spent=spent
    )
    components, told, *_ = components_of(piece, executables(), profile, all_watched=watched)
    assert set(components) == set(COMPONENTS)
    assert min(components.values()) >= 0.0
    assert math.isclose(sum(components.values()), wall, rel_tol=1e-9, abs_tol=1e-9)
    assert 0.0 <= told <= wall * (1 + 1e-9)


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
    assert 0.0 <= untraced(profile, Slice(at(2), wall, steps)) <= 1.0 + 1e-9


BUSY_HOST = HostShares(on_processor=1.0)
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


def test_what_a_window_found_holds_for_steps_that_were_not_watched() -> None:
    profile = profile_of({"compute": 0.06, "memory": 0.02})
    components, told, *_ = components_of(
        Slice(at(2), 1.0, 100), executables(), profile, all_watched=False, host=BUSY_HOST
    )
    assert components["compute"] == pytest.approx(0.6)
    assert components["memory"] == pytest.approx(0.2)
    assert components["host"] == pytest.approx(0.2)
    assert components["unknown"] == 0.0
    assert told == pytest.approx(0.8)


def test_sampled_runs_say_how_long_and_windows_say_with_what() -> None:
    profile = profile_of({"compute": 0.03, "memory": 0.01})
    # 10 ms each, of which traced operations explain 4 ms
    piece = Slice(at(2), 1.0, 50, runs=Counter({1: 50}), spent={1: 0.5})
    components, *_ = components_of(piece, executables(), profile, all_watched=True, host=BUSY_HOST)
    assert components["compute"] == pytest.approx(0.15)
    assert components["memory"] == pytest.approx(0.05)
    assert components["latency"] == pytest.approx(0.3)  # the device waited between its operations
    assert components["host"] == pytest.approx(0.5)


def test_traced_runs_that_are_told_apart_say_what_lay_between_their_operations() -> None:
    part = Part("f", 10, Counter({"compute": 0.03, "memory": 0.01}), run_seconds=0.05)
    assert split(part, 0.01) == pytest.approx({"compute": 0.006, "memory": 0.002, "latency": 0.002})
    assert split(part, 0.001) == pytest.approx({"compute": 0.0006, "memory": 0.0002, "latency": 0.0002})


def test_tracing_makes_small_operations_longer_and_that_is_taken_off() -> None:
    profile = profile_of(
        {"latency": 0.08}, operations=100_000
    )  # 10 000 a step: at most 7 ms of it is tracing
    components, *_ = components_of(
        Slice(at(2), 0.6, 100), executables(), profile, all_watched=False, host=BUSY_HOST
    )
    assert components["latency"] == pytest.approx(0.4)
    assert components["host"] == pytest.approx(0.2)


def test_a_device_that_worked_while_the_loop_waited_leaves_less_to_the_input() -> None:
    profile = profile_of({"compute": 0.04}, input_seconds=0.05, input_busy_seconds=0.04)
    components, *_ = components_of(
        Slice(at(2), 1.0, 100, input_wait=0.5), executables(), profile, all_watched=False, host=BUSY_HOST
    )
    assert components["input"] == pytest.approx(0.1)
    assert components["host"] == pytest.approx(0.5)


def test_a_wait_in_which_the_device_was_idle_is_never_the_devices() -> None:
    profile = profile_of({"compute": 0.06}, input_seconds=0.04)
    piece = Slice(at(2), 1.0, 100, input_wait=0.7)
    components, *_ = components_of(piece, executables(), profile, all_watched=False, host=BUSY_HOST)
    assert components["input"] == pytest.approx(0.7)
    assert components["compute"] == pytest.approx(0.3)
