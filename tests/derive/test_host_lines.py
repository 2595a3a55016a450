"""Lines of the main thread: what a loop's idle time is charged to, the table, and the series."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.derive.fold import Fold
from jaxobs.derive.loops.host_lines import LINES_KEPT, LINES_SHOWN, SERIES, UNTAKEN_KEPT
from jaxobs.model.events import (
    RAN,
    UNMARKED,
    Event,
    ExecutableRan,
    LoopEntered,
    MainThreadSampled,
    StepCompleted,
    TurnsAsked,
)
from jaxobs.report.summary import render
from jaxobs.vocabulary.activities import ACTIVITIES
from tests.derive.made_up import (
    PEAKS,
    applied,
    at,
    backend,
    check,
    compiled,
    created,
    families,
    main_thread,
    module,
    new_fold,
    step,
    waits,
)

SERIES_NAME = "jaxobs_host_line_sampled_seconds_total"


def half_idle(*seen: Event) -> Fold:
    """A hundred steps of 100 ms, each of which keeps the device for 50 ms; the host waits for it in each."""
    fold = applied(new_fold(), [backend(), created(1)])
    fold.bind_peaks("example", PEAKS)
    fold.analysed(1, module(matrix=4e10))
    fold.apply(ExecutableRan(1, 0.05, 0.001, at(1)))
    return applied(
        fold, [waits(), *(step(i, 1 + i / 10, 1 + (i + 1) / 10, runs=(1,)) for i in range(100)), *seen]
    )


def train(fold: Fold) -> dict[str, Any]:
    snapshot = fold.snapshot(at(11))
    check(snapshot, {})
    found: dict[str, Any] = snapshot.to_dict()["loops"]["train"]
    return found


def test_a_main_thread_that_works_while_the_device_is_idle_is_host() -> None:
    loop = train(half_idle(main_thread(1, 11, processor=5.0, device=5.0)))
    assert loop["components"]["host"] == pytest.approx(5.0)
    assert loop["components"]["unknown"] == pytest.approx(0.0)
    assert loop["device_idle"] == pytest.approx(0.5)


@pytest.mark.parametrize(("platform", "host"), [("gpu", 5.0), ("tpu", 5.0), ("cpu", 0.0)])
def test_a_main_thread_that_runs_in_calls_of_jax_is_host_but_on_a_cpu_whose_own_work_that_is(
    platform: str, host: float
) -> None:
    dispatching = main_thread(1, 11, dispatch=10.0)
    loop = train(half_idle(backend()._replace(platform=platform), dispatching))
    assert loop["components"]["host"] == pytest.approx(host)
    assert loop["components"]["unknown"] == pytest.approx(5.0 - host)
    assert loop["host_lines"][0]["activity"] == ("dispatch" if platform == "cpu" else "processor")


@pytest.mark.parametrize(("activity", "idle"), [("device", None), ("unknown", 0.5)])
def test_whatever_else_it_does_is_not_host(activity: str, idle: float | None) -> None:
    loop = train(half_idle(main_thread(1, 11, loop="train", **{activity: 10.0})))
    assert loop["components"]["host"] == 0.0
    assert loop["components"]["unknown"] == pytest.approx(5.0)
    assert loop["device_idle"] == (idle and pytest.approx(idle))


def test_what_was_sampled_stands_for_no_time_in_which_the_loop_compiled() -> None:
    """The first call of a function that nobody marked is in no loop yet, and half of this one's time was compiling."""
    fold = applied(new_fold(), [backend(), created(1), waits()])
    fold.bind_peaks("example", PEAKS)
    fold.analysed(1, module(matrix=4e10))
    fold.apply(ExecutableRan(1, 0.05, 0.001, at(1)))
    applied(fold, [compiled(1, 6), step(0, 1, 6.1, runs=(1,))])
    applied(fold, [step(i, 6 + i / 10, 6 + (i + 1) / 10, runs=(1,)) for i in range(1, 50)])
    loop = train(applied(fold, [main_thread(6, 11, processor=2.5, device=2.5)]))
    assert loop["components"]["host"] == pytest.approx(2.5)
    assert loop["device_idle"] == pytest.approx(0.25)


@pytest.mark.parametrize("otherwise", ["unknown", "input", "processor"])
@pytest.mark.parametrize(("waited", "contradicts"), [(4.0, False), (5.9, False), (6.5, True), (10.0, True)])
def test_a_device_is_not_idle_while_the_main_thread_waits_for_it(
    waited: float, contradicts: bool, otherwise: str
) -> None:
    """Its runs were timed on a quiet machine, which others use now: for minutes 41 % of busy time seemed idle."""
    seen = main_thread(1, 11, loop="train", device=waited, **{otherwise: 10 - waited})
    loop = train(half_idle(seen))
    assert (loop["device_idle"] is None) == (loop["device_seconds_per_step"] is None) == contradicts
    why = f"{loop.get('device_idle_reason')} {loop['bottleneck']['reason']}"
    assert ("worked for longer than its runs take" in why) == contradicts
    assert sum(loop["components"][each] for each in ("unknown", "input", "host")) == pytest.approx(5.0)


def test_a_host_that_is_blocked_is_host_where_the_device_is_known_to_be_idle() -> None:
    """It sleeps, or waits for a lock, a file or the network."""
    loop = train(half_idle(main_thread(1, 11, waiting=5.0, device=5.0)))
    assert loop["components"]["host"] == pytest.approx(5.0)
    asked = TurnsAsked("train", 100, 0, at(11))  # the host may wait for the device in a way that is not known
    assert train(half_idle(asked, main_thread(1, 11, waiting=10.0)))["components"]["host"] == pytest.approx(
        0.0
    )


def test_without_samples_idle_time_is_unknown() -> None:
    loop = train(half_idle())
    assert loop["components"]["host"] == 0.0
    assert loop["host_lines"] is None
    assert loop["host_lines_reason"]


def test_a_wait_below_an_iterator_is_input_without_a_mark() -> None:
    loop = train(half_idle(main_thread(1, 11, input=4.0, processor=1.0, device=5.0)))
    assert loop["components"]["input"] == pytest.approx(4.0)
    assert loop["components"]["host"] == pytest.approx(1.0)


def test_shares_of_lines_are_of_the_same_time_as_the_label() -> None:
    """Beside a label of the last half minute stood the lines of the hours before it."""
    fold = applied(new_fold(), [backend(), created(1), waits()])
    for second in range(1, 301):
        late = second > 260
        fold.apply(main_thread(second, second + 1, input=0.8 * late, device=1 - 0.8 * late))
        fold.apply(step(second, second, second + 1, runs=(1,)))
        fold.snapshot(at(second + 1))
    loop = fold.snapshot(at(301)).to_dict()["loops"]["train"]
    shares = {row["activity"]: row["share"] for row in loop["host_lines"]}
    assert shares == pytest.approx({"input": 0.8, "device": 0.2})
    assert {row["activity"]: row["seconds"] for row in loop["host_lines"]} == pytest.approx(
        {"input": 32.0, "device": 268.0}
    )
    quiet = fold.snapshot(at(1000)).to_dict()["loops"]["train"]
    assert quiet["bottleneck"]["label"] == "unknown"
    assert sum(row["share"] for row in quiet["host_lines"]) == pytest.approx(1.0)


def test_samples_of_another_loop_say_nothing_of_this_one() -> None:
    fold = half_idle(main_thread(1, 11, loop="eval", processor=10.0))
    assert train(fold)["components"]["host"] == 0.0
    process = fold.snapshot(at(12)).to_dict()["process"]
    assert process["host_lines"][0]["seconds"] == pytest.approx(10.0)


def test_samples_during_a_loops_first_step_are_that_loops() -> None:
    told: list[Event] = [LoopEntered("train", at(1)), main_thread(1, 2, processor=1.0)]
    document = applied(new_fold(), told).snapshot(at(3)).to_dict()
    assert document["loops"]["train"]["host_lines"][0]["seconds"] == pytest.approx(1.0)
    assert document["process"]["host_lines"] is None


def test_a_long_steps_idle_time_is_charged_by_what_was_seen_in_all_of_it() -> None:
    """Nine of ten minutes in an iterator of data, and the last one on a processor."""
    fold = applied(new_fold(), [backend(), created(1)])
    fold.bind_peaks("example", PEAKS)
    fold.analysed(1, module(matrix=4e10))
    applied(fold, [ExecutableRan(1, 0.05, 0.001, at(1)), waits()])
    for second in range(1, 1201):
        long = second % 600 < 540
        fold.apply(main_thread(second, second + 1, input=float(long), processor=float(not long)))
        if second % 600 == 0:
            fold.apply(step(second // 600, second - 599, second + 1, runs=(1,)))
            fold.snapshot(at(second + 1))
    loop = fold.snapshot(at(1201)).to_dict()["loops"]["train"]
    assert loop["bottleneck"]["shares"]["input"] == pytest.approx(0.9, abs=0.01)
    assert loop["components"]["host"] == pytest.approx(120, rel=0.02)


@pytest.mark.parametrize(("after", "inside"), [(f"{RAN}1", True), (f"{RAN}2", False), ("", False)])
def test_samples_are_of_a_found_loop_only_after_calls_of_its_turns(after: str, inside: bool) -> None:
    fold = applied(new_fold(), [created(1), created(2, "g"), waits(loop="f")])
    rows: list[Any] = []
    for number in range(1, 20):
        begin = at(number * 0.2)
        rows += (UNMARKED, number, begin, begin + 1_000, 0, 0, 1_000, None, None, 1, 1)
    fold.apply_steps(rows)
    document = applied(fold, [main_thread(1, 3, loop=after, processor=2.0)]).snapshot(at(4)).to_dict()
    assert bool(document["loops"]["f"]["host_lines"]) is inside
    assert bool(document["process"]["host_lines"]) is not inside


def test_the_summary_names_the_lines_beside_the_idle_time() -> None:
    rows = (
        ("train", "train.py:88 collate", "", "processor", 4.1, 41),
        ("train", "train.py:90 step", "queue.get in grain", "input", 0.9, 9),
        ("train", "train.py:91 step", "block_until_ready", "device", 5.0, 50),
    )
    text = render(half_idle(MainThreadSampled(at(1), at(11), rows)).snapshot(at(11)).to_dict())
    assert (
        "host lines of train: device idle 50 %; train.py:88 collate 41 %, train.py:90 step (queue.get in grain) 9 %, "
        "waiting for the device 50 %" in text
    )
    assert "train.py:91" not in text
    assert "alone)" not in text


def test_the_summary_tells_where_shares_are_of_few_samples() -> None:
    """Two of five runs of a program said that it waits for its device for 82 % and 92 %, by seven and nine samples."""
    rows = (
        ("train", "train.py:88 collate", "", "processor", 1.0, 1),
        ("train", "train.py:91 f", "", "device", 8.0, 6),
    )
    text = render(half_idle(MainThreadSampled(at(1), at(11), rows)).snapshot(at(11)).to_dict())
    assert re.search(r"host lines of train: .*waiting for the device .* %\s+\(by 7 samples alone\)", text)


rows = st.tuples(
    st.sampled_from(["train", "", "other"]),
    st.integers(0, 500).map("train.py:{} f".format),
    st.sampled_from(["", "queue.get"]),
    st.sampled_from(ACTIVITIES),
    st.floats(0.0, 100.0),
    st.integers(0, 100),
)


@given(st.lists(st.lists(rows, max_size=30), max_size=20))
def test_series_add_up_to_what_was_sampled_and_never_fall(turns: list[list[Any]]) -> None:
    fold = new_fold()
    fold.apply(step(0, 1.0, 2.0))
    before: dict[Any, float] = {}
    for turn, told in enumerate(turns):
        fold.apply(MainThreadSampled(at(0), at(3_000), tuple(told)))
        shown = families(fold.snapshot(at(turn + 2))).get(SERIES_NAME, {})
        assert all(shown.get(labels, 0.0) >= value for labels, value in before.items())
        before = dict(shown)
    total = sum(row[4] for told in turns for row in told)
    assert sum(before.values()) == pytest.approx(total, abs=1e-6)
    assert len(before) <= 2 * (SERIES + 1)


def test_lines_are_bounded_and_lose_no_time() -> None:
    many = tuple(("train", f"train.py:{n} f", "", "processor", 1.0, 1) for n in range(LINES_KEPT + 100))
    fold = applied(new_fold(), [step(0, 1.0, 2.0), MainThreadSampled(at(1), at(500), many)])
    loop = fold.snapshot(at(3)).to_dict()["loops"]["train"]
    assert len(loop["host_lines"]) == LINES_SHOWN
    assert loop["host_lines"][0]["line"] == "__other__"
    assert loop["host_lines"][0]["seconds"] == pytest.approx(100.0)
    fold.apply(MainThreadSampled(at(3), at(500), tuple(("", *row[1:]) for row in many)))
    outside = fold.loops.outside
    assert len(outside.seconds) == LINES_KEPT + 1
    assert outside._untaken.maxlen == UNTAKEN_KEPT
    rows = fold.snapshot(at(501)).to_dict()["process"]["host_lines"]
    assert rows[0]["share"] == pytest.approx(100 / (LINES_KEPT + 100))


def test_samples_of_loops_that_take_turns_within_a_second_are_of_each_its_own() -> None:
    """Those of a second in which another began were nobody's, and such loops had no lines at all."""
    fold = new_fold()
    for number, function in ((1, "train"), (2, "evaluate")):
        applied(fold, [created(number, function)])
    rows: list[Any] = []
    for number in range(1, 61):
        begin = at(0.1 * number)
        rows += (UNMARKED, number, begin, begin, 0, 0, 0, None, None, 1, 1 if number < 40 else 2)
    fold.apply_steps(rows)
    seen = tuple((f"{RAN}{run}", "a.py:1", "", "processor", 0.5, run) for run in (1, 2))
    fold.apply(MainThreadSampled(at(5), at(6), seen, 1))
    fold.apply(TurnsAsked(UNMARKED, 9, 9, at(6), 1))
    document = fold.snapshot(at(6)).to_dict()
    samples = {name: loop["host_samples"] for name, loop in document["loops"].items()}
    assert samples == {"train": 1, "evaluate": 2}
    stretches = {name: loop.stretches for name, loop in fold.loops.by_name.items()}
    assert stretches["train"].host_waits
    assert not stretches["evaluate"].host_waits


def test_what_the_main_thread_does_after_a_loop_that_nobody_marked_is_no_line_of_it() -> None:
    """It waited for its threads for half a minute: 71 % of the loop's lines, and of what its time was charged by."""
    fold = applied(new_fold(), [backend(), created(1, "train")])
    rows: list[Any] = []
    for number in range(1, 61):
        rows += (UNMARKED, number, at(0.1 * number), at(0.1 * number), 0, 0, 0, None, None, 1, 1)
    fold.apply_steps(rows)
    fold.apply(MainThreadSampled(at(1), at(2), ((f"{RAN}1", "train.py:1", "", "processor", 1.0, 9),), 1))
    fold.apply(StepCompleted(UNMARKED, 59, at(6.1), 0))
    fold.snapshot(at(6.5))
    fold.apply(StepCompleted(UNMARKED, 60, at(6.2), 0))
    for second in range(8, 38):
        seen = (f"{RAN}1", "threading.py:1 _shutdown", "", "waiting", 1.0, 9)
        fold.apply(MainThreadSampled(at(second), at(second + 1), (seen,), 1))
    fold.end(at(38), by_itself=True)
    loop = fold.snapshot(at(38)).to_dict()["loops"]["train"]
    shares = {row["line"]: row["share"] for row in loop["host_lines"]}
    assert shares["train.py:1"] == pytest.approx(1.0)


def test_what_is_sampled_after_a_stretch_is_none_of_it_however_late_it_is_taken() -> None:
    """A loop that nobody marked ended seconds before a snapshot: its sleep afterwards was 29 % of the loop's lines."""
    steps = [step(number, number, number + 1.0, runs=(1,)) for number in range(1, 7)]
    fold = applied(new_fold(), [backend(), created(1), *steps])
    for second in range(1, 16):
        fold.apply(main_thread(second, second + 1, device=float(second < 7), waiting=float(second >= 7)))
    fold.apply(StepCompleted("train", 6, at(7), 0))
    fold.snapshot(at(16))
    sampled = fold.loops.by_name["train"].whole.sampled
    assert {line.activity: spent for line, spent in sampled.items()} == {"device": 6.0}


def test_what_is_sampled_where_no_step_follows_in_time_is_none_of_the_loops() -> None:
    """Between two marked steps it would be: after the first minute it is known that this is no such time."""
    fold = half_idle()
    fold.apply(main_thread(11, 61, waiting=50.0))
    fold.apply(step(100, 200, 210, runs=(1,)))
    fold.apply(main_thread(200, 210, processor=10.0))
    fold.snapshot(at(211))
    sampled = fold.loops.by_name["train"].whole.sampled
    assert {line.activity for line in sampled} == {"processor"}


@pytest.mark.parametrize(
    "row",
    [
        ("train", "a", "", "sleeping", 1.0, 1),
        ("train", "a", "", "processor", -1.0, 1),
        ("train", "a", "", "processor", float("nan"), 1),
    ],
)
def test_what_cannot_be_is_refused(row: Any) -> None:
    fold = applied(new_fold(), [step(0, 1.0, 2.0), MainThreadSampled(at(1), at(2), (row,))])
    assert fold.observation.refused == 1


def test_samples_by_call_path_add_up_and_each_frame_stands_before_what_it_called() -> None:
    rows = (
        ("train", "model.py:5 augment", "", "processor", 2.0, 20),
        ("train", "model.py:5 augment", "time.sleep", "waiting", 1.0, 10),
        ("train", "train.py:9 main", "block_until_ready", "device", 6.9, 69),
        ("train", "train.py:3 main", "", "processor", 0.01, 1),
    )
    callers = (("train.py:20 <module>", "train.py:8 main"),) * 2 + (("train.py:20 <module>",),) * 2
    told = MainThreadSampled(at(1), at(11), rows, callers=callers)
    loop = half_idle(told).snapshot(at(11)).to_dict()["loops"]["train"]
    frames = [
        (row["depth"], row["name"], row["line"], round(row["seconds"], 3)) for row in loop["host_calls"]
    ]
    assert frames == [
        (0, "<module>", 20, 9.91), (1, "main", 9, 6.9), (2, "block_until_ready", 0, 6.9), (1, "main", 8, 3.0),
        (2, "augment", 5, 3.0), (3, "(itself)", 0, 2.0), (3, "time.sleep", 0, 1.0), (1, "main", 3, 0.01),
    ]  # fmt: skip
    assert [row["activity"] for row in loop["host_calls"]] == [
        "device", "device", "device", "processor", "processor", "processor", "waiting", "processor",
    ]  # fmt: skip
    assert loop["host_calls"][0]["share"] == pytest.approx(1.0)
    assert sum(row["seconds"] for row in loop["host_lines"]) == pytest.approx(9.91)
