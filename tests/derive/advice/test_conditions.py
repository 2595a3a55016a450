"""Each condition: where it holds, and the other side of each of its thresholds."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from jaxobs.derive.advice import CONDITIONS, ONCE
from tests.derive.advice import documents
from tests.derive.advice.documents import Document, advise
from tests.derive.advice.found import after, conditions_of, only

DONATION_BYTES = 64 * 2**20


def test_each_condition_has_a_case() -> None:
    assert list(documents.TRUE) == [condition.__name__ for condition in CONDITIONS]


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
        (documents.without_a_cache(90.0, 88.0), 88 / 1_000),
        (documents.waiting_for_input(0.4), 0.9 * 0.4),  # nine tenths of the wall time are this loop's
        (documents.waiting_for_input(0.98), 0.9 * 0.98),
        (documents.busy_host(0.3), 0.9 * 0.3),
        (documents.communicating(0.4), 0.9 * 0.4),
        (documents.small_operations(share=0.6), 0.9 * 0.6 * 0.9),
        (documents.small_batch(alias=2.5e9), 0.85 * 0.25 / 2),
        (documents.throttled(0.3), 0.9 * 0.98 * 0.3),
        (documents.throttled(0.3, 0.1, compute_bound=0.6), 0.9 * (0.6 * 0.3 + 0.38 * 0.1)),
        (documents.single_precision(), 0.85 * (0.8e14 / 494.7e12 / 0.17) * 0.5),
    ],
)
def test_what_is_given_back_is_the_time_it_takes_less_what_remains(document: Document, saves: float) -> None:
    piece = only(document)
    assert piece["saves_ratio"] == pytest.approx(saves)
    if piece["condition"] == "persistent_cache":
        assert (piece["seconds_per_hour"], piece["seconds_per_hour_reason"]) == (None, ONCE), (
            "only at its start"
        )
    else:
        assert piece["seconds_per_hour"] == pytest.approx(3_600 * saves)


@pytest.mark.parametrize(
    ("document", "fires"),
    [
        (documents.recompiling(count=2), True),
        (
            after(20.0, documents.recompiling(count=1, seconds=1.0)),
            True,
        ),  # a large one is spent at each start
        (after(20.0, documents.recompiling(count=1, seconds=0.99)), False),
        (after(20.0, documents.recompiling(count=2, seconds=0.99)), True),
        (documents.recompiling(seconds=30.1), True),
        (documents.recompiling(seconds=29.9), False),  # below three hundredths of the wall time
        (documents.recompiling(cause="other"), False),  # no known cause
        (after(200.0, documents.without_a_cache(40.0, 10.1)), True),
        (after(200.0, documents.without_a_cache(40.0, 9.9)), False),  # programs below a second are not kept
        (documents.waiting_for_input(0.034), True),
        (documents.waiting_for_input(0.033), False),
        (documents.waiting_for_input(0.4, unknown=0.05), True),
        (documents.waiting_for_input(0.4, unknown=0.07), False),  # the device may be busy meanwhile
        (documents.busy_host(0.1), True),
        (documents.busy_host(0.099), False),
        (documents.communicating(0.034), True),
        (documents.communicating(0.033), False),
        (documents.small_operations(count=1_000), True),
        (documents.small_operations(count=390), False),  # 51 µs each
        (documents.small_operations(count=200, seconds=0.01), True),
        (documents.small_operations(count=199, seconds=0.009), False),  # 19.9 a step
        (documents.small_batch(intensity=290.0), True),
        (documents.small_batch(intensity=300.0), False),  # the ridge is at 295 FLOP/byte
        (documents.small_batch(alias=2.51e9), True),
        (
            documents.small_batch(alias=10.1e9),
            False,
        ),  # a cache: less is moved than reading and writing all of it
        (documents.small_batch(alias=2.49e9), False),  # state is less than a quarter of 20 GB
        (documents.small_batch(label="latency"), False),
        (documents.single_precision(1.26 * 494.7e12), True),
        (documents.single_precision(1.24 * 494.7e12), False),
        (documents.running_out(86_000.0), True),
        (documents.running_out(87_000.0), False),
        (documents.throttled(0.035), True),
        (documents.throttled(0.033), False),
        (documents.throttled(0.3, compute_bound=0.0), False),  # the memory's clock is as high as it can be
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
        documents.throttled,
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


def test_a_throttled_device_is_named_with_its_clock_and_what_holds_it_down() -> None:
    piece = only(documents.throttled())
    assert piece["device"] == "1"
    assert piece["sentence"] == (
        "Low clocks took device 1 30 % of its FLOP/s (clock now at 0.60 of its highest) in the last half minute: "
        "held down by hw_thermal_slowdown."
    )


def test_where_the_loader_is_the_limit_it_must_be_faster_too() -> None:
    piece = only(documents.waiting_for_input(0.8))
    assert piece["condition"] == "input_wait"
    assert piece["saves_ratio"] == pytest.approx(0.9 * 0.8)
    assert "at the speed of the rest of the step (36 ms a batch)" in piece["remedy"]
    assert "background thread" in piece["remedy"]
    assert "the device waits for input 80 % of the time" in piece["sentence"], "the host may wait for longer"


@pytest.mark.parametrize(("share", "faster"), [(0.49, False), (0.5, False), (0.51, True)])
def test_a_loader_that_keeps_up_need_not_be_faster(share: float, faster: bool) -> None:
    assert ("faster" in only(documents.waiting_for_input(share))["remedy"]) is faster


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
    document["loops"]["train"]["profile"]["busy_seconds"] /= 2
    assert advise(document) == []


def test_the_count_a_step_does_not_grow_with_the_windows() -> None:
    """A loop's profile holds for ten minutes, its operations are of the whole run."""
    sentence = only(documents.small_operations())["sentence"]
    document = documents.small_operations()
    row = document["operations"][0]
    row |= {"executions": 6 * row["executions"], "seconds": 6 * row["seconds"]}
    assert only(document)["sentence"] == sentence


def test_the_number_of_small_operations_is_told_without_the_loops_around_them() -> None:
    document = documents.small_operations(count=400, seconds=0.003, gap=0.0)
    row = document["operations"][0]
    document["operations"] = [
        row | {"seconds": 0.001, "share": 1 / 3},
        row | {"seconds": 0.002, "share": 2 / 3, "kind": "control", "executions": 100},
    ]
    sentence = only(document)["sentence"]
    assert "launching small operations and waiting for them: 40 a step or more take 50 µs or less" in sentence


def test_small_operations_of_another_loop_or_of_before_are_none_of_this_one() -> None:
    """A loop of few was said to launch the thousands that the job's loop of the hours before had launched."""
    document = documents.small_operations(count=400, seconds=0.002)
    own = document["operations"][0] | {"share": 0.1}
    document["operations"] = [
        own,
        own | {"executable": "of before", "executions": 90_000, "seconds": 0.018, "share": 0.9},
    ]
    assert conditions_of(document) == []
    document["operations"][0]["executions"] = 4_000
    assert "40 a step or more" in only(document)["sentence"]


def test_a_decoder_whose_cache_grows_with_the_batch_is_not_told_that_its_state_does_not() -> None:
    assert advise(documents.small_batch() | {"with_gradients": []}) == []


def test_products_that_may_run_in_tensorfloat32_are_held_against_its_peak() -> None:
    assert "2 times as fast in bfloat16" in only(documents.single_precision())["sentence"]
    document = documents.single_precision()
    del document["devices"][0]["peaks"]["matrix"]["float32"]
    assert advise(document) == []


def test_products_that_the_compiler_alone_runs_in_float32_get_no_advice_on_types() -> None:
    assert advise(documents.single_precision(written=0.0)) == []


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
    assert (piece["saves_ratio"], piece["saves_ratio_reason"]) == (None, "it gives back no time")
    document["executables"][0]["donatable_bytes"] = DONATION_BYTES - 1
    assert advise(document) == []


def loading_ahead(share: float, waits_in: str) -> Document:
    document = documents.waiting_for_input(share)
    document["loops"]["train"]["host_lines"] = [
        {
            "line": "train.py:9 batches",
            "waits_in": waits_in,
            "activity": "input",
            "seconds": 90.0,
            "share": share,
        },
        {"line": "train.py:12", "waits_in": "", "activity": "device", "seconds": 60.0, "share": 1 - share},
    ]
    return document


@pytest.mark.parametrize(
    "waits_in", ["queue.get", "queue.get in grain", "items.get", "pool.next", "_base.result_iterator"]
)
def test_a_thread_that_loads_ahead_already_is_not_advised_but_told_to_be_faster(waits_in: str) -> None:
    piece = only(loading_ahead(0.4, waits_in))
    assert "runs beside it already, but does not keep up" in piece["sentence"]
    assert "background thread" not in piece["remedy"]
    assert piece["saves_ratio"] == pytest.approx(0.9 * 0.4)


def test_a_busy_host_is_told_its_own_lines_and_not_those_of_the_loader() -> None:
    document = documents.busy_host()
    document["loops"]["train"]["host_lines"] = [
        {"line": line, "waits_in": "", "activity": activity, "seconds": 30.0, "share": share}
        for line, activity, share in (
            ("train.py:9 batches", "input", 0.3), ("train.py:14 augment", "processor", 0.25),
            ("train.py:12", "device", 0.4),
        )
    ]  # fmt: skip
    piece = only(documents.training(document))
    assert "train.py:14 augment" in piece["sentence"]
    assert "batches" not in piece["sentence"]
    assert piece["remedy"].startswith("Let the host run ahead")
    document["loops"]["train"]["host_lines"].pop()
    piece = only(documents.training(document))
    assert piece["remedy"].startswith("Take that work out of the loop"), "no line waits for the device"
    assert only(document)["remedy"] == piece["remedy"], "nor in a loop that trains nothing"
    assert "the device waits for the host 40 % of the time" in piece["sentence"], (
        "it may sleep, or have no processor"
    )


@pytest.mark.parametrize("waits_in", ["", "time.sleep", "numpy.get_printoptions"])
def test_a_loader_on_the_main_thread_is_told_to_load_ahead(waits_in: str) -> None:
    assert "background thread" in only(loading_ahead(0.4, waits_in))["remedy"]


def test_a_rank_that_waits_in_collectives_hears_first_that_another_may_be_late() -> None:
    document = documents.training(documents.communicating())
    alone = only(document)["remedy"]
    assert "rank" not in alone
    document["process"]["process_count"] = 8
    remedy = only(document)["remedy"]
    assert remedy.index("another of the 8 ranks is late") < remedy.index("reduce gradients in bfloat16")


@pytest.mark.parametrize("document", [documents.communicating, documents.busy_host, documents.not_donated])
def test_only_where_a_backward_pass_was_compiled_training_is_spoken_of(
    document: Callable[[], Document],
) -> None:
    """A loop that decodes has no gradients, losses, recipes or training state."""
    words = re.compile(r"gradient|loss|recipe|training|micro-batch")
    assert not words.search(str(only(document())))
    assert words.search(str(only(documents.training(document()))))


def test_memory_that_is_full_soon_is_told_with_the_lines_that_hold_it() -> None:
    document = documents.running_out()
    document["process"]["live_arrays"] = {"lines": [{"line": "train.py:40", "count": 9, "bytes": 2**30}]}
    piece = only(document)
    assert piece["seconds_left"] == 1_200.0
    assert piece["sentence"] == (
        "The memory of device 0 grows by 60 MiB a minute and is full in 20 min; most of the live arrays were made at "
        "train.py:40."
    )
    document = documents.quiet()
    document["process"]["memory"] = {"forecast_seconds": 600.0, "growth_bytes_per_second": 2.0**20}
    assert only(document)["sentence"].startswith(
        "The memory of the training process grows by 60 MiB a minute"
    )


def test_no_piece_has_words_that_only_this_project_knows() -> None:
    own = re.compile(r"unmodelled|Python before it|all in numpy|exposed|ridge|roof\b")
    for document in documents.TRUE.values():
        assert not own.search(str([only(document())[key] for key in ("sentence", "remedy")]))


def test_the_line_of_the_dearest_operation_and_its_caller_are_named_where_they_are_known() -> None:
    own, others, without = (documents.single_precision() for _ in range(3))
    for document in (own, others, without):
        document["operations"][0] |= {
            "source": "/home/ada/model.py:118",
            "called_from": "/home/ada/model.py:201",
        }
    said = "matrix FLOPs; its dearest operation that is bound by compute is at model.py:118"
    assert f"{said}, called from model.py:201)" in only(own)["sentence"]
    own["operations"][0]["called_from"] = ""
    assert f"{said})" in only(own)["sentence"]
    own["operations"][0]["called_from"] = "/home/ada/model.py:118"
    assert f"{said})" in only(own)["sentence"], "a function on one line with its call"
    others["operations"][0]["executable"] = "fedcba9876543210"
    assert "model.py" not in only(others)["sentence"]
    without["operations"].insert(0, without["operations"][0] | {"source": "", "called_from": ""})
    assert "model.py" not in only(without)["sentence"], "one without a line has more time"


def test_the_line_that_a_loops_latency_or_communication_is_of_is_named() -> None:
    for document, label in (
        (documents.small_operations(), "latency"),
        (documents.communicating(), "communication"),
    ):
        document["operations"][0] |= {
            "source": "/home/ada/model.py:118", "called_from": "/home/ada/model.py:201", "bottleneck": label,
        }  # fmt: skip
        said = (
            f"; its dearest operation that is bound by {label} is at model.py:118, called from model.py:201."
        )
        assert only(document)["sentence"].endswith(said)
