from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxobs.config import SETTINGS
from jaxobs.report.comparison import NOT_SPEED, NOTHING, Cause, StepTime, compare
from jaxobs.report.noise import Change
from jaxobs.report.record import Record
from tests.report.made_up import content, record, windows
from tests.sample_document import device_time

CHANGES: dict[Cause, dict[str, Any]] = {
    "model": {"flops": 2e9, "output": 9e6},
    "batch": {"examples": 512, "flops": 2e9},
    "precision": {"types": {"float32": 1.0}},
    "input": {"stretches": windows(0.014, waited=0.004)},
    "recompile": {"recompiles": 3},
    "settings": {"environment": {"XLA_FLAGS": "--xla_disable_hlo_passes=fusion"}},
    "versions": {"versions": {"jax": "0.8.2"}},
    "devices": {"kind": "NVIDIA A100"},
}


def records() -> st.SearchStrategy[Record]:
    """A run with any of the differences."""
    changes = st.sets(st.sampled_from(sorted(CHANGES))).map(
        lambda causes: {key: value for cause in sorted(causes) for key, value in CHANGES[cause].items()}
    )
    noisy = st.builds(windows, st.sampled_from([0.01, 0.0102, 0.02]), seed=st.integers(0, 9))
    return st.builds(lambda changed, stretches: record(**{"stretches": stretches, **changed}), changes, noisy)


@settings(max_examples=40, deadline=None)
@given(records())
def test_a_run_beside_itself_has_nothing_to_tell(run: Record) -> None:
    comparison = compare(run, run)
    assert comparison.differences == ()
    assert [told.verdict for told in comparison.step_times] == ["within the noise"]


@settings(max_examples=40, deadline=None)
@given(records(), records())
def test_the_other_way_round_slower_is_faster(one: Record, other: Record) -> None:
    there, back = compare(one, other), compare(other, one)
    turned = {"slower": "faster", "faster": "slower"}
    assert {(found.cause, found.what, found.before, found.after) for found in there.differences} == {
        (found.cause, found.what, found.after, found.before) for found in back.differences
    }
    assert [told.verdict for told in there.step_times] == [
        turned.get(told.verdict, told.verdict) for told in back.step_times
    ]


@pytest.mark.parametrize("cause", list(CHANGES))
def test_each_cause_is_named_and_no_other(cause: Cause) -> None:
    comparison = compare(record(), record(**CHANGES[cause]))
    assert {found.cause for found in comparison.differences} == {cause}


def test_settings_of_where_it_is_served_and_what_is_told_are_no_differences() -> None:
    told = {
        "metrics_host": "::1",
        "metrics_port": 9470,
        "out_of_memory_reports": 0,
        "peak_flops": {"float32": 1e12},
    }
    assert compare(record(), record(settings=told)).differences == ()
    assert SETTINGS.keys() >= NOT_SPEED


def test_the_largest_difference_comes_first_and_what_is_no_figure_last() -> None:
    both = compare(record(), record(flops=4e9, recompiles=1, versions={"jax": "0.8.2"}))
    assert [found.cause for found in both.differences] == ["model", "recompile", "versions"]


@pytest.mark.parametrize("seed", range(10))
def test_two_runs_that_differ_by_their_noise_alone_are_as_fast(seed: int) -> None:
    one = record(stretches=windows(noise=0.1, seed=2 * seed))
    other = record(stretches=windows(noise=0.1, seed=2 * seed + 1))
    comparison = compare(one, other)
    assert comparison.differences == ()
    assert [told.verdict for told in comparison.step_times] == ["within the noise"]


def test_a_larger_model_at_a_larger_batch_is_both() -> None:
    comparison = compare(record(), record(examples=512, flops=6e9, output=9e6))
    assert {found.cause for found in comparison.differences} == {"batch", "model"}


def test_functions_whose_share_of_device_time_has_changed_are_named() -> None:
    attention, other = (record(device_time=device_time(name)) for name in ("attention", "softmax"))
    told = compare(attention, other).differences
    assert sorted((found.cause, found.what, found.before, found.after, found.change) for found in told) == [
        ("device time", "share of attention model.py", "75 %", "–", ""),
        ("device time", "share of softmax model.py", "–", "75 %", ""),
    ]
    less = device_time()
    for row in less["by_line"][1:4]:
        row["share"] /= 3
    (only,) = compare(attention, record(device_time=less)).differences
    assert only[1:] == ("share of attention model.py", "75 %", "25 %", "-50 points")
    assert compare(attention, record()).differences == ()


def with_examples(stretches: dict[str, list[float | None]], each: float) -> dict[str, list[float | None]]:
    return stretches | {"examples": [each * (steps or 0.0) for steps in stretches["steps"]]}


def test_where_the_batch_differs_the_time_of_an_example_is_judged() -> None:
    one = record(stretches=with_examples(windows(0.01), 256))
    doubled = record(examples=512, stretches=with_examples(windows(0.015, seed=1), 512))
    comparison = compare(one, doubled)
    (told,) = comparison.step_times
    assert (told.verdict, told.of) == ("faster", "example")
    assert math.exp(told.change.estimate) == pytest.approx(0.75, rel=0.02)
    assert "is faster in B: 29.4 µs an example instead of 38.9 µs" in told.sentence()
    assert comparison.to_dict()["step_times"][0]["of"] == "example"
    assert [found.cause for found in comparison.differences] == ["batch"]


def test_medians_that_contradict_the_stretches_are_told_apart_from_them() -> None:
    """Stretches of two kinds, of which the other one is in the middle: the medians say 1.6, most pairs less."""
    told = "16 ms a step instead of 10 ms by their medians, +30 %"
    for high in (1.4, 1.7):
        change = Change(math.log(1.3), math.log(1.2), math.log(high))
        assert told in StepTime("train", 0.01, 0.016, change).sentence()
    assert "13 ms a step instead of 10 ms, +30 %" in StepTime("train", 0.01, 0.013, change).sentence()


def test_too_short_a_run_is_not_judged() -> None:
    comparison = compare(record(), record("short.json", stretches=windows(0.02, number=3)))
    (told,) = comparison.step_times
    assert told.change is None
    assert "too few" in told.reason
    assert "cannot be told" in str(comparison)


def test_a_loop_that_only_one_has_is_said() -> None:
    other = content()
    other["snapshot"]["loops"]["fit"] = other["snapshot"]["loops"].pop("train")
    comparison = compare(record(), Record("b.json", other))
    assert comparison.step_times == ()
    assert "step time: the two have no loop in common" in comparison.not_compared


def test_of_a_function_that_one_record_has_left_out_it_is_not_said_how_often_it_compiled_again() -> None:
    without = content()
    without["snapshot"]["functions"] = {}
    (found,) = compare(record(recompiles=3), Record("b.json", without)).differences
    assert found.after == "never"
    without["snapshot"]["functions_left_out"] = 1
    assert compare(record(recompiles=3), Record("b.json", without)).differences == ()
    assert compare(Record("b.json", without), record(recompiles=3)).differences == ()


def test_the_words_say_how_much_slower_and_the_table_what_differs() -> None:
    stretches = windows(0.02, seed=3)
    text = str(compare(record(), record("b.json", stretches=stretches, flops=2e9, output=9e6, examples=256)))
    assert "`train` is slower in B: " in text
    [row] = [line.split() for line in text.splitlines() if line.startswith("FLOPs a run of train_step")]
    assert row[-7:] == ["1", "G", "2", "G", "+100", "%", "model"]
    assert NOTHING in str(compare(record(), record(stretches=stretches)))


def test_large_changes_are_written_without_powers_of_ten() -> None:
    after = record("b.json", stretches=windows(0.3), flops=150e9)
    text = str(compare(record(), after))
    assert "+2,900 %" in text
    assert "e+" not in text


@settings(max_examples=20, deadline=None)
@given(records(), records())
def test_the_plain_form_is_strict_json(one: Record, other: Record) -> None:
    json.dumps(compare(one, other).to_dict(), allow_nan=False)


def test_missing_parts_are_no_reason_to_fail() -> None:
    bare = Record("bare.json", {"snapshot": {"process": None, "loops": None, "executables": None}})
    assert compare(bare, record()).step_times == ()
    assert str(compare(record(), bare))


def test_at_a_prompt_it_shows_as_it_prints() -> None:
    comparison = compare(record(), record("b.json"))
    assert repr(comparison) == comparison.text()
