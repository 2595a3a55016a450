"""More names than may be shown, and names that are hostile."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxobs.derive.loops.loop import MAX_LOOPS
from jaxobs.derive.series import Heaviest
from jaxobs.model.events import (
    UNMARKED,
    Compilation,
    CompilePhaseEnded,
    FunctionWatched,
    LoopEnded,
    LoopEntered,
    Measured,
    Recorded,
    SourceReported,
    StepRows,
)  # fmt: skip
from jaxobs.model.snapshot import SnapshotData
from jaxobs.vocabulary.text import OTHER
from tests.derive.made_up import (
    applied,
    at,
    check,
    compiled,
    counters,
    created,
    families,
    new_fold,
    parsed,
    run_seconds,
    step,
)


def compilation(function: str, number: int) -> Compilation:
    return Compilation(function, number, 1, at(1), (), "off", None, (), None)


def calls(run: int, count: int, first: int, start: float) -> StepRows:
    """Calls of one watched function outside marked steps, five a second."""
    rows: StepRows = []
    for number in range(count):
        began = at(start + number / 5)
        rows += [UNMARKED, first + number, began, began + 1_000, 0, 0, 1_000, None, None, 1, run]
    return rows


def series_count(snapshot: SnapshotData) -> int:
    return len(list(counters(snapshot)))


def test_ten_thousand_function_names_stay_within_the_limit_and_lose_no_compile() -> None:
    fold = new_fold(2_000)
    for number in range(10_000):
        fold.apply(compiled(1, 1 + (number + 1) / 10_000, function=f"f{number}"))
        fold.apply(compilation(f"f{number}", number))
    snapshot = fold.snapshot(at(3))
    shown = families(snapshot)["jaxobs_compilations_total"]
    assert sum(shown.values()) == 10_000
    assert len(shown) <= 40
    assert shown[OTHER,] == 10_000 - (len(shown) - 1)
    assert ("f9999",) in shown  # the largest, not the first that came
    assert ("f0",) not in shown
    assert sum(len(family.series) for family in snapshot.families) <= 2_000
    check(snapshot, {})


def test_a_plugin_with_ten_thousand_series_takes_nobody_elses_place() -> None:
    fold, alone = new_fold(2_000), new_fold(2_000)
    for number in range(10_000):
        fold.apply(Measured("example_level", (f"kind{number}",), 2.0, at(1)))
    for each in (fold, alone):
        for number in range(30):
            each.apply(compiled(1, 1 + (number + 1) / 10_000, function=f"f{number}"))
            each.apply(step(number, number, number + 1))
    found, expected = (families(each.snapshot(at(40))) for each in (fold, alone))
    assert {name: set(series) for name, series in found.items() if name.startswith("jaxobs_")} == {
        **{name: set(series) for name, series in expected.items()},
        "jaxobs_series_limited_total": {("example_level",)},
    }
    assert len(found["example_level"]) == 500
    assert found["jaxobs_series_limited_total"]["example_level",] == 9_500


def test_beyond_the_limit_counters_are_summed_and_gauges_dropped_and_both_are_counted() -> None:
    fold = new_fold(60)
    for number in range(100):
        fold.apply(Measured("example_things_total", (f"kind{number}",), 2.0, at(1)))
        fold.apply(Measured("example_level", (f"kind{number}",), 2.0, at(1)))
    found = families(fold.snapshot(at(2)))
    things, levels = found["example_things_total"], found.get("example_level", {})
    assert sum(things.values()) == 200.0
    assert things[OTHER,] > 0
    assert (OTHER,) not in levels
    limited = found["jaxobs_series_limited_total"]
    assert limited["example_things_total",] == things[OTHER,] / 2.0
    assert limited["example_level",] == 100 - len(levels)


def test_a_total_kept_elsewhere_is_not_added_again_and_again_beyond_the_limit() -> None:
    fold = new_fold(50)
    for number in range(100):
        fold.apply(Measured("example_level", (f"kind{number}",), 1.0, at(1)))
    for turn in range(5):
        fold.apply(SourceReported("late", "collector", True, 7.0, 0, None, "", at(turn)))
        fold.snapshot(at(turn))
    assert sum(families(fold.snapshot(at(9)))["jaxobs_source_seconds_total"].values()) == 7.0


def test_a_function_that_is_displaced_keeps_its_count_and_the_rate_of_all_stays_true() -> None:
    fold = new_fold(120)  # two functions keep series of their own
    before: dict[tuple[str, ...], float] = {}
    total = 0
    for turn in range(30):
        for number in range(6):
            fold.apply(compiled(turn, turn + 0.01 * 3**number * (turn % 5 == number), function=f"f{number}"))
            fold.apply(compilation(f"f{number}", number))
            total += 1
        snapshot = fold.snapshot(at(turn + 1))
        before = check(snapshot, before)
        assert sum(families(snapshot)["jaxobs_compilations_total"].values()) == total


weights = st.dictionaries(st.integers(0, 30), st.tuples(st.floats(0, 100), st.floats(0, 100)))


@given(st.lists(weights, min_size=1, max_size=8), st.integers(1, 5))
def test_the_choice_is_sticky_full_and_never_too_large(
    turns: list[dict[int, tuple[float, ...]]], limit: int
) -> None:
    selection: Heaviest[int] = Heaviest(limit)
    for turn in turns:
        chosen = set(selection.choose(turn))
        assert len(chosen) == min(limit, len(turn))
        assert chosen <= turn.keys()
        assert set(selection.choose(turn)) == chosen  # the same weights change nothing
        for key in turn.keys() - chosen:  # nobody outside weighs much more than the least inside
            assert turn[key][0] <= 2.0 * min(turn[kept][0] for kept in chosen)


hostile = st.text(st.characters(), max_size=300)


@settings(max_examples=40, deadline=None)
@given(hostile, hostile, hostile, hostile)
def test_any_name_at_all_reaches_the_strict_parser_escaped(
    loop: str, function: str, recorded: str, kind: str
) -> None:
    loop = f"l{loop}"  # what is recorded in no loop goes to `train`
    fold = applied(new_fold(), [step(0, 1.0, 2.0, loop=loop), Recorded(loop, recorded, 1.0, at(2))])
    fold.apply(CompilePhaseEnded(function, "backend", 1, at(1), at(2), 10, True))
    fold.apply(compilation(function, 1))
    fold.apply(Measured("example_things_total", (kind,), 1.0, at(1)))
    assert fold.observation.refused == 0
    snapshot = fold.snapshot(at(3))
    check(snapshot, {})
    found = parsed(snapshot.families)
    assert [sample.value for sample in found["jaxobs_steps"].samples] == [1.0]
    assert [sample.value for sample in found["example_things"].samples] == [1.0]


@pytest.mark.parametrize(
    "text", ["x" * 1_000_000, 'new\nline "quoted" \\', "\ud800lone", "nul\0", "\x7f\u2028"]
)
def test_a_label_of_a_megabyte_or_of_no_text_is_cut_and_told_from_others(text: str) -> None:
    fold = applied(new_fold(), [step(0, 1.0, 2.0, loop=text), step(0, 1.0, 2.0, loop=text + "2")])
    found = parsed(fold.snapshot(at(3)).families)["jaxobs_steps"].samples
    assert len({sample.labels["loop"] for sample in found}) == 2
    assert max(len(sample.labels["loop"]) for sample in found) <= 200


def test_a_loop_named_after_each_step_is_refused_at_some_point() -> None:
    fold = applied(new_fold(), [step(0, number, number + 1, loop=f"step {number}") for number in range(100)])
    assert len(fold.snapshot(at(101))["loops"]) == MAX_LOOPS
    assert fold.observation.refused == 100 - MAX_LOOPS


def test_a_loop_that_is_refused_holds_nothing_back() -> None:
    fold = applied(new_fold(), [LoopEntered(f"step {number}", at(1)) for number in range(MAX_LOOPS)])
    applied(fold, [LoopEnded(f"step {number}", at(1), 0) for number in range(MAX_LOOPS)])
    fold.apply(LoopEntered("train", at(2)))
    assert sum(run_seconds(fold, 50.0).values()) == pytest.approx(50.0)


def test_recorded_names_are_bounded() -> None:
    fold = applied(new_fold(), [Recorded("", f"name{number}", 1.0, at(1)) for number in range(1_000)])
    assert len(fold.snapshot(at(2)).to_dict()["loops"]["train"]["recorded"]) == 200
    assert fold.observation.refused == 800


rises = st.lists(st.lists(st.tuples(st.integers(0, 40), st.floats(0, 100)), max_size=12), max_size=12)


@given(rises, st.integers(1, 8))
def test_looking_at_what_changed_alone_chooses_and_lists_as_looking_at_all(
    turns: list[list[tuple[int, float]]], limit: int
) -> None:
    whole: Heaviest[int] = Heaviest(limit)
    quick: Heaviest[int] = Heaviest(limit)
    largest: Heaviest[int] = Heaviest(limit, 1.0)
    weights: dict[int, tuple[float, ...]] = {}
    for turn in turns:
        for key, more in turn:
            weights[key] = (weights.get(key, (0.0,))[0] + more,)
        touched = {key for key, _ in turn}
        changed = [key for key in weights if key in touched]  # in one order: of equals the first is chosen
        listed = largest.choose(weights, changed)
        assert [weights[key] for key in listed] == sorted(weights.values(), reverse=True)[:limit]
        everyone, some = whole.choose(weights), quick.choose(weights, changed)
        assert sorted(weights[key] for key in everyone) == sorted(weights[key] for key in some)


def test_a_loop_that_is_found_when_there_are_too_many_is_refused_and_its_calls_are_counted() -> None:
    fold = new_fold()
    for number in range(MAX_LOOPS):
        fold.apply(Recorded(f"run {number}", "loss", 1.0, at(1)))
    applied(fold, [FunctionWatched(-1, "train", "", at(1)), created(1, "train")])
    fold.apply_steps(calls(1, 20, first=1, start=2.0))
    fold.snapshot(at(6))
    fold.end(at(8), by_itself=True)
    document = fold.snapshot(at(9)).to_dict()
    assert len(document["loops"]) == MAX_LOOPS
    assert [(one["function"], one["runs"]) for one in document["executables"]] == [("train", 20)]
    assert any(
        f"train: more than {MAX_LOOPS} loops" in reason for reason in document["agent"]["refused_reasons"]
    )


def test_a_recorded_value_that_is_refused_does_not_keep_later_ones_out() -> None:
    fold = new_fold()
    for number in range(300):  # more names than a loop takes, before any loop is there
        fold.apply(Recorded("", f"value{number}", 1.0, at(1)))
    fold.apply(step(1, 1, 2))
    fold.apply(Recorded("train", "loss", 2.0, at(2)))
    fold.apply(Recorded("train", "value1", 3.0, at(3)))
    fold.end(at(4), by_itself=True)
    recorded = fold.snapshot(at(5)).to_dict()["loops"]["train"]["recorded"]
    assert recorded["value1"] == 3.0


def test_where_series_are_few_the_gauges_of_loops_go_before_the_counters_of_functions() -> None:
    fold = new_fold(60)
    applied(fold, [step(number, number, number + 1) for number in range(5)])
    for number in range(100):
        fold.apply(compiled(1, 1 + (number + 1) / 100, function=f"f{number}"))
        fold.apply(compilation(f"f{number}", number))
    shown = families(fold.snapshot(at(7)))
    assert "train" in {labels[0] for labels in shown["jaxobs_bottleneck_info"]}
    assert "train" in {labels[0] for labels in shown["jaxobs_last_step_timestamp_seconds"]}
    assert shown["jaxobs_series_limited_total"]
