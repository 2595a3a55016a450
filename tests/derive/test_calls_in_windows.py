"""Which executable the calls of a function in a profiler window are given to."""

from __future__ import annotations

from dataclasses import replace

from jaxobs.derive.profiler_windows.loop_profile import LoopProfile, loop_profile
from jaxobs.derive.profiler_windows.parts import LoopPart
from jaxobs.roofline_model.traced import Profiled, join
from tests.derive.made_up import PEAKS, at
from tests.derive.traced import COMPUTE, cost_of, device, operation, trace_of


def test_calls_of_a_function_with_two_executables_in_one_window_are_given_to_neither() -> None:
    part = LoopPart((), (), 10.0, 1.0, whole=True)
    twice = loop_profile("train", part, two_executables(), {"abc": "f", "def": "f"}, at(3))
    assert isinstance(twice, LoopProfile)
    assert [found.calls for found in twice.parts.values()] == [None, None]
    apart = loop_profile("train", part, two_executables(), {"abc": "f", "def": "g"}, at(3))
    assert isinstance(apart, LoopProfile)
    assert {key: found.calls for key, found in apart.parts.items()} == {
        "abc": 10,
        "def": 0,
    }
    apart.add(apart)
    assert (apart.parts["abc"].calls, apart.whole_steps) == (20, 20)
    apart.add(twice)
    assert apart.parts["abc"].calls is None


def test_calls_of_a_function_are_given_to_neither_of_two_executables_that_did_not_run() -> None:
    """As after a recompile, where the host is ahead of the device: which of the two it called is not known."""
    part = LoopPart((), (), 10.0, 1.0, whole=True)
    functions = {"abc": "g", "def": "g", "old": "f", "new": "f"}
    both = loop_profile("train", part, two_executables(), functions, at(3))
    assert isinstance(both, LoopProfile)
    assert (both.parts["old"].calls, both.parts["new"].calls) == (None, None)
    del functions["old"]
    alone = loop_profile("train", part, two_executables(), functions, at(3))
    assert isinstance(alone, LoopProfile)
    assert alone.parts["new"].calls == 10


def two_executables() -> Profiled:
    """Ten calls of `f` in ten steps, and operations of two executables."""
    rows = [
        replace(operation(name, 0.2, runs=10), program_id=number) for number, name in ((1, "a"), (2, "b"))
    ]
    costs = {
        1: cost_of(("a", COMPUTE, 1)),
        2: cost_of(("b", COMPUTE, 1), fingerprint="def"),
    }
    trace = trace_of(device(rows), calls={"f": 10})
    peaks = {("host", "/device:GPU:0"): PEAKS}
    return join(trace, lambda host, program: costs[program or 0], peaks, {})
