"""Each condition: where it holds, and the other side of each of its thresholds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jaxobs.derive.advice import CONDITIONS, advise
from jaxobs.derive.advice.of_compiles import REMEDIES
from jaxobs.derive.advice.of_work import DONATION_BYTES
from tests.derive.advice import documents
from tests.derive.advice.documents import Document


def conditions_of(document: Document) -> list[str]:
    return [piece["condition"] for piece in advise(document)]


def only(document: Document) -> dict[str, Any]:
    (piece,) = advise(document)
    return piece


def test_each_condition_has_a_case() -> None:
    assert list(documents.TRUE) == [condition.name for condition in CONDITIONS]


def test_a_job_in_good_order_is_given_none() -> None:
    assert advise(documents.quiet()) == []


@pytest.mark.parametrize("condition", documents.TRUE)
def test_each_condition_alone(condition: str) -> None:
    piece = only(documents.TRUE[condition]())
    assert piece["condition"] == condition
    for text in (piece["sentence"], piece["remedy"]):
        assert text[0].isupper() or text[0] == "`"
        assert text.endswith(".")
        assert "{" not in text
    assert any(letter.isdecimal() for letter in piece["sentence"])  # a number


@pytest.mark.parametrize(
    ("document", "saves"),
    [
        (documents.recompiling(seconds=60.0), 60 / 1_000),
        (documents.without_a_cache(90.0), 90 / 1_000),
        (documents.waiting_for_input(0.4), 0.9 * 0.4),  # nine tenths of the wall time are this loop's
        (documents.waiting_for_input(0.8), 0.9 * 0.2),  # the rest of the step is the shorter
        (documents.busy_host(0.3), 0.9 * 0.3),
        (documents.communicating(0.4), 0.9 * 0.4),
        (documents.small_operations(share=0.6), 0.9 * 0.6 * 0.9),
        (documents.small_batch(alias=2.5e9), 0.85 * 0.25 / 2),
        (documents.single_precision(), 0.85 * (0.8e14 / 494.7e12 / 0.17) * 0.5),
    ],
)
def test_what_is_given_back_is_the_time_it_takes_less_what_remains(document: Document, saves: float) -> None:
    piece = only(document)
    assert piece["saves_ratio"] == pytest.approx(saves)
    assert piece["seconds_per_hour"] == pytest.approx(3_600 * saves)


@pytest.mark.parametrize(
    ("document", "fires"),
    [
        (documents.recompiling(count=2), True),
        (documents.recompiling(count=1), False),  # one says nothing about the next hour
        (documents.recompiling(seconds=10.1), True),
        (documents.recompiling(seconds=9.9), False),  # below a hundredth of the wall time
        (documents.recompiling(cause="other"), False),  # no known cause
        (documents.without_a_cache(10.1, 10), True),
        (documents.without_a_cache(9.9, 9), False),  # 10 s in all
        (documents.without_a_cache(20.0, 19), True),
        (documents.without_a_cache(20.0, 21), False),  # programs below a second are not cached
        (documents.waiting_for_input(0.02), True),
        (documents.waiting_for_input(0.01), False),
        (documents.waiting_for_input(0.4, unknown=0.05), True),
        (documents.waiting_for_input(0.4, unknown=0.07), False),  # the device may be busy meanwhile
        (documents.busy_host(0.1), True),
        (documents.busy_host(0.099), False),
        (documents.communicating(0.02), True),
        (documents.communicating(0.01), False),
        (documents.small_operations(count=1_000), True),
        (documents.small_operations(count=390), False),  # 51 µs each
        (documents.small_operations(count=200, seconds=0.01), True),
        (documents.small_operations(count=199, seconds=0.009), False),  # 19.9 a step
        (documents.small_batch(intensity=290.0), True),
        (documents.small_batch(intensity=300.0), False),  # the ridge is at 295 FLOP/byte
        (documents.small_batch(alias=2.51e9), True),
        (documents.small_batch(alias=2.49e9), False),  # state is less than a quarter of 20 GB
        (documents.small_batch(label="latency"), False),
        (documents.single_precision(1.26 * 494.7e12), True),
        (documents.single_precision(1.24 * 494.7e12), False),
        (documents.not_donated(0.0101 * 80e9), True),
        (documents.not_donated(0.0099 * 80e9), False),
        (documents.not_donated(runs=2), True),
        (documents.not_donated(runs=1), False),
        (documents.not_donated(runs=None), False),
    ],
)
def test_both_sides_of_each_threshold(document: Document, fires: bool) -> None:
    assert bool(advise(document)) is fires


@pytest.mark.parametrize(
    "document",
    [
        documents.waiting_for_input, documents.busy_host, documents.communicating, documents.small_operations,
    ],
)  # fmt: skip
def test_no_advice_on_a_loop_where_the_confidence_is_low(document: Callable[[], Document]) -> None:
    told = document()
    told["loops"]["train"]["bottleneck"]["confidence"] = 0.101
    assert len(advise(told)) == 1
    told["loops"]["train"]["bottleneck"]["confidence"] = 0.099
    assert advise(told) == []


@pytest.mark.parametrize("document", [documents.small_batch, documents.single_precision])
def test_no_advice_on_an_executable_where_the_confidence_is_low(document: Callable[[], Document]) -> None:
    told = document()
    told["executables"][0]["bottleneck"]["confidence"] = 0.099
    assert advise(told) == []


def test_the_argument_of_a_recompilation_and_its_change_are_named() -> None:
    piece = only(documents.recompiling())
    assert "`batch['tokens']` changed (int32[32,512] → int32[7,512])" in piece["sentence"]
    assert "`batch['tokens']`" in piece["remedy"]
    assert piece["function"] == "train_step"


@pytest.mark.parametrize("cause", REMEDIES)
def test_each_known_cause_has_its_remedy_also_without_an_argument(cause: str) -> None:
    document = documents.recompiling(cause=cause)
    (row,) = document["functions"]["train_step"]["recompilations"]
    row |= dict.fromkeys(("argument", "old", "new", "call_site"))
    piece = only(document)
    assert "None" not in piece["sentence"]
    assert "None " not in piece["remedy"] or cause == "pytree"


def test_recompilations_by_one_argument_count_together_whatever_it_changed_to() -> None:
    document = documents.recompiling(count=1, seconds=8.0)
    rows = document["functions"]["train_step"]["recompilations"]
    document["functions"]["train_step"]["recompilations"] = [rows[0], rows[0] | {"new": "int32[9,512]"}]
    assert only(document)["saves_ratio"] == pytest.approx(0.016)


def test_a_loader_that_is_slower_than_the_step_needs_more_workers() -> None:
    assert "more workers" in only(documents.waiting_for_input(0.7))["remedy"]
    assert "more workers" not in only(documents.waiting_for_input(0.3))["remedy"]


def test_work_that_was_timed_and_only_lacks_a_peak_is_known_work() -> None:
    """On a processor that was not calibrated the device's time is `unknown`, but it is no secret."""
    document = documents.waiting_for_input(0.6, unknown=0.4)
    document["loops"] = {"train": document["loops"]["train"]}
    document["executables"][0] |= {"seconds": 360.0, "bottleneck": {"label": "unknown", "confidence": 0.0}}
    assert conditions_of(document) == ["input_wait"]
    document["executables"] = []
    assert advise(document) == []


def test_communication_is_exposed_only_where_a_window_saw_it() -> None:
    document = documents.communicating()
    document["loops"]["train"]["profile"] = None
    assert advise(document) == []


def test_operations_of_several_devices_are_counted_for_one() -> None:
    document = documents.small_operations(count=390, seconds=0.0039)
    assert conditions_of(document) == ["small_operations"]
    document["devices"] *= 2
    assert advise(document) == []


def test_products_that_may_run_in_tensorfloat32_are_held_against_its_peak() -> None:
    assert "2 times as fast in bfloat16" in only(documents.single_precision())["sentence"]
    document = documents.single_precision()
    del document["devices"][0]["peaks"]["matrix"]["float32"]
    assert advise(document) == []


def test_a_processor_without_a_faster_type_gets_no_advice_on_types() -> None:
    document = documents.single_precision()
    measured = {"float32": {"value": 2e11}, "bfloat16": {"value": 1.1e11}}
    document["devices"][0]["peaks"]["matrix"] = measured
    assert advise(document) == []


def test_donation_where_the_size_of_the_memory_is_not_known() -> None:
    document = documents.not_donated(DONATION_BYTES)
    document["devices"] = [{"device": 0, "kind": "cpu", "peaks": None, "memory": None}]
    piece = only(document)
    assert piece["saves_bytes"] == DONATION_BYTES
    assert (piece["saves_ratio"], piece["saves_ratio_reason"]) == (None, "it gives back memory, not time")
    document["executables"][0]["donatable_bytes"] = DONATION_BYTES - 1
    assert advise(document) == []
