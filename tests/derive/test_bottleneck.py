"""Charging each second once, and naming what takes most of them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.derive.loops.bottleneck import ENOUGH_STEPS, HOST_UNKNOWN, Charged, decide
from jaxobs.derive.loops.host_lines import HostLines
from jaxobs.derive.loops.stretches import FEW_STEPS, WINDOW, Stretch, Stretches
from jaxobs.derive.steps import Steps
from jaxobs.model.clock import NANOSECONDS
from jaxobs.model.cost import Cost
from jaxobs.model.events import ExecutableRan, FunctionWatched, StepCompleted
from jaxobs.report.sentence import why_unknown
from jaxobs.roofline_model.bottleneck import Modelled, label_of_busy, of_executable
from jaxobs.roofline_model.bounds import bound_time
from jaxobs.vocabulary.words import COMPONENTS
from tests.derive.made_up import PEAKS, applied, at, backend, created, module, new_fold, step

amounts = st.floats(0.0, 1e6)
busy_words = st.sampled_from(["compute", "memory", "latency", "unmodelled", "unknown"])


def test_one_long_step_is_said_in_whole_seconds() -> None:
    reason = decide(Charged({"compute": 150.0}), 1).reason
    assert reason is not None
    assert reason.startswith("1 step in 2.5 min, and a label takes at least")


@given(st.dictionaries(st.sampled_from(COMPONENTS), amounts), st.integers(0, 10_000))
def test_the_label_is_the_largest_share_or_unknown(components: dict[str, float], steps: int) -> None:
    verdict = decide(Charged(components), steps)
    assert 0.0 <= verdict.confidence <= 1.0
    if verdict.confidence > 0:
        assert components[verdict.label] == max(components.values())
        assert steps >= FEW_STEPS
    else:
        assert verdict.reason or verdict.label in {"unknown", "unmodelled"} or verdict.runner_up
    if verdict.shares:
        assert sum(verdict.shares.values()) == pytest.approx(1.0)


@given(st.floats(0.5, 1e3), st.floats(0.0, 0.49), st.integers(5, 1_000), st.integers(1, 1_000))
def test_the_surer_the_more_steps_and_the_larger_the_margin(
    wall: float, other: float, steps: int, more: int
) -> None:
    mixed = {"compute": wall * (1 - other), "host": wall * other}
    assert decide(Charged(mixed), steps + more).confidence >= decide(Charged(mixed), steps).confidence
    assert decide(Charged({"compute": wall}), steps).confidence >= decide(Charged(mixed), steps).confidence


def test_unexplained_time_lowers_the_confidence() -> None:
    clear = decide(Charged({"compute": 8.0, "host": 2.0}), 100)
    dim = decide(Charged({"compute": 8.0, "host": 2.0, "unmodelled": 5.0}), 100)
    assert (dim.label, clear.label) == ("compute", "compute")
    assert dim.confidence < clear.confidence


def test_device_time_that_was_charged_as_a_whole_lowers_the_confidence() -> None:
    mixed = {"compute": 8.0, "host": 2.0}
    by_operation, whole = decide(Charged(mixed), 100), decide(Charged(mixed, as_whole=8.0), 100)
    assert whole.label == by_operation.label
    assert whole.confidence == pytest.approx(by_operation.confidence * (1 - 0.5 * 0.8))


def test_too_few_steps_or_no_time_are_unknown_with_a_reason() -> None:
    few, short = decide(Charged({"compute": 9.0}), ENOUGH_STEPS - 1), decide(Charged({"compute": 0.1}), 100)
    for verdict in (few, short, decide(Charged({"compute": 60.0}), 1), decide(Charged({}), 0)):
        assert (verdict.label, verdict.confidence, verdict.runner_up) == ("unknown", 0.0, None)
        assert verdict.reason
    assert decide(Charged({}), 0).shares == {}


def test_few_long_steps_have_a_label_that_is_little_sure() -> None:
    verdict = decide(Charged({"compute": 19.0, "compile": 1.0}), 3)
    assert verdict.label == "compute"
    assert 0.1 < verdict.confidence < 0.25


def test_time_far_above_the_bound_is_latency_only_where_the_bound_holds_all_work() -> None:
    bound = bound_time(Cost(matrix_flops_by_type={"float32": 1e9}), PEAKS)
    assert label_of_busy(Modelled(bound), 0.005) == "compute"
    assert label_of_busy(Modelled(bound), 0.05) == "latency"
    assert label_of_busy(Modelled(bound, complete=False), 0.05) == "unmodelled"
    assert label_of_busy(Modelled(bound, operations=2000), 0.05) == "latency"
    assert label_of_busy(Modelled(bound, operations=8), 0.05) == "unknown", "no launch takes milliseconds"
    assert "launching" in (of_executable(Modelled(bound, operations=8), 0.05, 20).reason or "")
    verdict = of_executable(Modelled(bound, complete=False), 0.05, 20)
    assert (verdict.label, verdict.confidence) == ("unmodelled", 0.0)
    assert verdict.reason == "it took far longer than the work that is modelled"


def test_without_a_bound_or_a_time_there_is_no_label_to_be_sure_of() -> None:
    bound = bound_time(Cost(matrix_flops_by_type={"float32": 1e9}), PEAKS)
    nothing = bound_time(Cost(), PEAKS)
    assert of_executable(Modelled(None), 1.0, 5).label == "unmodelled"
    assert of_executable(Modelled(bound), None, 5).label == "unknown"
    assert of_executable(Modelled(nothing), 1.0, 5).label == "unknown"
    for verdict in (
        of_executable(Modelled(None), 1.0, 5),
        of_executable(Modelled(bound), None, 5),
        of_executable(Modelled(nothing), 1.0, 5),
    ):
        assert verdict.confidence == 0.0
        assert verdict.reason


@given(st.floats(1e3, 1e15), st.floats(1e3, 1e15), st.floats(1e-9, 1e6), st.integers(0, 1_000))
def test_an_executables_confidence_is_a_ratio_and_its_runner_up_another_word(
    flops: float, moved: float, measured: float, samples: int
) -> None:
    bound = bound_time(Cost(matrix_flops_by_type={"float32": flops}, bytes=moved), PEAKS)
    verdict = of_executable(Modelled(bound), measured, samples)
    assert verdict.label in {"compute", "memory", "latency"}
    assert verdict.runner_up != verdict.label
    assert 0.0 <= verdict.confidence <= 1.0


@pytest.mark.parametrize("length", [40.0, 60.0, 600.0])
def test_a_loop_of_long_steps_has_a_label_from_its_newest_two(length: float) -> None:
    fold = applied(new_fold(), [backend(), created(1), FunctionWatched(1, "f", "", at(0))])
    fold.bind_peaks("example", PEAKS)
    fold.analysed(1, module(matrix=0.9e12 * length))
    for number in range(5):
        begin = 1 + number * length
        fold.apply(ExecutableRan(1, 0.95 * length, 0.01, at(begin + length)))
        fold.apply(step(number, begin, begin + length, runs=(1,)))
        fold.apply(StepCompleted("train", number, at(begin + length), 0))
        for later in (1, 20, 39):
            loop = fold.snapshot(at(begin + length + later)).to_dict()["loops"]["train"]
    assert loop["bottleneck"]["label"] == "compute"
    assert loop["bottleneck"]["confidence"] > 0
    assert loop["steps_per_second"] == pytest.approx(1 / length)


def kept(*steps_and_seconds: tuple[int, float]) -> Stretch:
    """The sum of the stretches that are kept of these, which followed each other; nothing is watched in them."""
    stretches, end = Stretches(lambda ended: None), at(0)
    for number, (steps, wall) in enumerate(steps_and_seconds):
        begin, end = end, end + round(wall * NANOSECONDS)
        if steps:
            edges = [begin + (end - begin) * place // steps for place in range(steps + 1)]
            for start, stop in pairwise(edges):
                row = ["train", number, start, stop, 0, 0, 0, None, None, 1, 0]
                stretches.steps_ended(Steps(row))
        stretches.take(end, HostLines(), wait=False, final=False)
    return stretches.whole()


def test_of_short_steps_the_last_half_minute_is_kept() -> None:
    assert kept((1, 100.0), *[(10, 1.0)] * 60).wall == pytest.approx(WINDOW / NANOSECONDS + 1)
    assert kept(*[(10, 1.0)] * 60, (1, 40.0)).steps == 1  # those before it are of long ago, by their length


def test_of_long_steps_two_are_kept_and_no_more_and_nothing_for_ever() -> None:
    assert kept(*[(1, 60.0)] * 5).steps == 2


@given(st.dictionaries(st.sampled_from(COMPONENTS), st.floats(0, 1e-4)), st.integers(5, 100))
def test_what_comes_of_rounding_is_no_share(little: dict[str, float], steps: int) -> None:
    verdict = decide(Charged({**little, "compute": 1_000.0}), steps)
    assert {share for word, share in verdict.shares.items() if word != "compute"} <= {0.0}
    assert verdict.shares["compute"] == 1.0


def test_unknown_says_why() -> None:
    assert decide(Charged({"unknown": 10.0}, reason="nothing was timed"), 100).reason == "nothing was timed"
    assert decide(Charged({"unknown": 10.0}), 100).reason


def test_unknown_time_beside_another_label_has_its_own_reason() -> None:
    part = decide(Charged({"input": 6.0, "unknown": 4.0}, reason=HOST_UNKNOWN), 100)
    assert (part.label, part.reason) == ("input", HOST_UNKNOWN)
    assert (
        why_unknown({"bottleneck": part.to_dict(), "mfu_reason": "no peaks"}) == HOST_UNKNOWN
    )  # on the page
    assert decide(Charged({"input": 6.0, "unknown": 4.0}), 100).reason is None
