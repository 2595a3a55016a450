"""Loops that nobody marked are found by what is called again and again."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.derive.loops.found import HELD, LOOPS, Followed, InferredLoops
from jaxobs.model.clock import NANOSECONDS
from jaxobs.model.events import (
    ROW_LENGTH,
    UNMARKED,
    StepCompleted,
    StepEnded,
    StepRows,
    TurnsAsked,
    steps_of_rows,
)
from tests.derive.made_up import applied, at, created, new_fold

FUNCTIONS = {1: "train", 2: "evaluate", 3: "loss", 4: "setup", 5: "sample", 6: "train"}
THREAD = 7


def calls(runs: Iterable[int], every: float = 0.1, start: float = 0.0, first: int = 1) -> StepRows:
    """Rows of calls that begin `every` seconds, each dispatched in a tenth of that."""
    rows: StepRows = []
    for number, run in enumerate(runs):
        begin = round((start + number * every) * NANOSECONDS)
        dispatch = round(every / 10 * NANOSECONDS)
        rows += (
            UNMARKED, first + number, begin, begin + dispatch, 0, 0, dispatch, None, None, THREAD, run,
        )  # fmt: skip
    return rows


def inferred(
    compiled: tuple[float, float] = (0.0, 0.0), took: Mapping[int, float] = MappingProxyType({})
) -> InferredLoops:
    """`compiled`: seconds from and to. `took`: device seconds by run."""
    begin, stop = (round(at * NANOSECONDS) for at in compiled)
    return InferredLoops(
        lambda run: FUNCTIONS.get(run, ""),
        lambda _, start, end: max(0, min(stop, end) - max(begin, start)),
        took.get,
    )


def steps(followed: Followed) -> dict[str, list[StepEnded]]:
    found: dict[str, list[StepEnded]] = {}
    for step in steps_of_rows(followed.rows):
        found.setdefault(step.loop, []).append(step)
    return found


def done(loops: InferredLoops, call: int, time: int) -> None:
    """The device is seen to be done with a call, which is told before how long its run took."""
    loops.completed(StepCompleted(UNMARKED, call, time, 0))


def test_a_function_called_again_and_again_is_a_loop_of_turns_from_call_to_call() -> None:
    found = steps(inferred().follow(calls([4, *[1] * 30])))
    assert list(found) == ["train"]
    turns = found["train"]
    assert [turn.step for turn in turns] == list(range(29))  # of the last call the end is not known yet
    assert {round((turn.end - turn.start) / NANOSECONDS, 6) for turn in turns} == {0.1}
    assert {turn.runs for turn in turns} == {(1,)}


def test_a_loop_is_named_after_the_function_on_which_the_device_works_far_longer() -> None:
    """An evaluation before the first epoch, and one after each."""
    loops = inferred(took={3: 0.02, 1: 0.07})
    found = steps(loops.follow(calls([3, *[1, 3] * 20])))
    assert list(found) == ["train"]
    assert [turn.step for turn in found["train"]] == list(range(19))
    assert {turn.runs for turn in found["train"]} == {(1, 3)}
    unseen = steps(inferred(took={3: 0.02}).follow(calls([3, *[1, 3] * 20])))
    assert list(unseen) == ["train"]
    once_timed = inferred(took={1: 0.16})  # no run of its other executable was timed
    assert list(steps(once_timed.follow(calls([3, 1, *[3, 6] * 20])))) == ["train"]
    took: dict[int, float] = {}
    late = inferred(took=took)  # the run of an epoch is timed after the next call has begun
    assert not steps(late.follow(calls([3, 1, 3], every=3.0)))
    took[1] = 6.5
    found = steps(late.follow(calls([1, 3, 1, 3], every=3.0, start=9.0, first=4)))
    assert list(found) == ["train"]
    alike = steps(inferred(took={3: 0.05, 1: 0.07}).follow(calls([3, *[1, 3] * 20])))
    assert list(alike) == [FUNCTIONS[3]]


def test_what_each_turn_calls_besides_belongs_to_it() -> None:
    found = steps(inferred().follow(calls([1, 3, 5] * 20)))
    assert list(found) == ["train"]
    assert {turn.runs for turn in found["train"]} == {(1, 3, 5)}


def test_micro_batches_that_every_turn_calls_alike_stay_in_it_once_they_are_usual() -> None:
    found = steps(inferred().follow(calls([1, 3, 3] * 20)))
    assert list(found) == ["train"]
    assert {turn.runs for turn in found["train"]} == {(1, 3, 3)}


def test_an_evaluation_between_epochs_is_a_loop_of_its_own() -> None:
    followed = inferred().follow(calls(([1] * 40 + [2] * 10) * 4))
    found = steps(followed)
    assert set(found) == {"train", "evaluate"}
    assert len(found["train"]) == 4 * 40
    assert len(found["evaluate"]) == 4 * 10 - 1  # the last call's turn is under way
    assert {turn.runs for turn in found["train"]} == {(1,)}


@pytest.mark.parametrize("seen", ["each end", "some ends"])
def test_a_pause_before_another_loop_is_no_time_of_the_one_that_ended(seen: str) -> None:
    """The host dispatches forty steps and ten evaluations, waits 0.1 s for the device after each, and sleeps for 3 s."""
    fold, call, now = new_fold(), 0, 0.0
    for run, function in ((1, "train"), (2, "evaluate")):
        fold.apply(created(run, function))
    for number in range(8):
        for run, count in ((1, 40), (2, 10)):
            fold.apply_steps(calls([run] * count, 0.01, now, call + 1))
            call, now = call + count, now + 0.01 * count + 0.1
            if seen == "each end" or number % 3:
                fold.apply(StepCompleted(UNMARKED, call, round(now * NANOSECONDS), 0))
        now += 3.0
    loops = fold.snapshot(round(now * NANOSECONDS)).document["loops"]
    rates = {name: loop["steps_per_second"] for name, loop in loops.items()}
    assert rates == pytest.approx({"train": 40 / 0.5, "evaluate": 10 / 0.2}, rel=0.01)


def test_the_last_turn_of_a_pass_is_like_the_others_where_the_host_waits_in_each() -> None:
    """Nobody sees the device's end in time; each turn takes 0.1 s, and after each pass the host sleeps for 3 s."""
    fold, call, now = new_fold(), 0, 0.0
    for run, function in ((1, "train"), (2, "evaluate")):
        fold.apply(created(run, function))
    for _ in range(8):
        for run, count in ((1, 40), (2, 10)):
            fold.apply_steps(calls([run] * count, 0.1, now, call + 1))
            call, now = call + count, now + 0.1 * count + 3.0
            fold.apply(TurnsAsked(UNMARKED, 5, 5, round(now * NANOSECONDS), run))
    document = fold.snapshot(round(now * NANOSECONDS)).document
    rates = {name: loop["steps_per_second"] for name, loop in document["loops"].items()}
    assert rates == pytest.approx({"train": 10.0, "evaluate": 10.0})


def test_a_function_that_has_its_place_in_the_turns_of_a_loop_holds_nothing_back() -> None:
    """A generator before five steps of its critic: its first call was a turn by itself, before anything was known."""
    loops = inferred()
    followed = loops.follow(calls([1, *[2] * 5] * 8, every=0.1))
    assert set(steps(followed)) == {"evaluate"}
    assert followed.outside == {1: 1}
    assert loops.undecided_since is None


def test_a_few_calls_of_many_programs_are_no_loop() -> None:
    loops = inferred()
    followed = loops.follow(calls([1, 2, 3, 4, 5, 1, 2, 3, 4, 5], every=0.05))
    assert followed.rows == []
    assert loops.end().outside == {1: 2, 2: 2, 3: 2, 4: 2, 5: 2}


def test_an_epoch_in_one_call_is_a_loop_at_its_second_call() -> None:
    found = steps(inferred().follow(calls([1, 1], every=30.0)))
    assert [len(turns) for turns in found.values()] == [1]


def test_a_warm_up_that_compiles_makes_no_loop() -> None:
    loops = inferred(compiled=(0.0, 9.0))
    assert loops.follow(calls([1, 1], every=10.0)).rows == []


def test_a_single_call_that_lasts_is_a_step_when_the_device_is_done() -> None:
    loops = inferred()
    assert loops.follow(calls([1])).rows == []
    done(loops, 1, 20 * NANOSECONDS)
    assert loops.ran(2, 20 * NANOSECONDS).rows == []  # another run
    found = steps(loops.ran(1, 20 * NANOSECONDS))
    assert [turn.end for turn in found["train"]] == [20 * NANOSECONDS]


def test_the_end_of_an_earlier_call_is_not_that_of_the_newest() -> None:
    """The host called a step of three seconds 33 times at once, and the device is done with the first of them."""
    loops = inferred()
    assert loops.follow(calls([1] * 33, every=0.0001)).rows == []
    done(loops, 1, 3 * NANOSECONDS)
    assert loops.ran(1, 3 * NANOSECONDS) == Followed()


def test_the_last_step_of_a_loop_ends_where_the_device_was_done_with_it() -> None:
    loops = inferred()
    followed = loops.follow(calls([1] * 5, every=3.0))
    told = loops.completed(StepCompleted(UNMARKED, 5, 15 * NANOSECONDS, 0))
    assert told == StepCompleted("train", 4, 15 * NANOSECONDS, 0)
    found = steps(Followed(followed.rows + loops.end().rows, Counter(), {}, []))
    assert [turn.end / NANOSECONDS for turn in found["train"]] == [3, 6, 9, 12, 15]


def test_completions_are_told_of_the_step_whose_main_call_they_belong_to() -> None:
    loops = inferred()
    loops.follow(calls([1, 3] * 20))
    assert loops.completed(StepCompleted(UNMARKED, 21, 5, 1)) == StepCompleted("train", 10, 5, 1)
    assert loops.completed(StepCompleted(UNMARKED, 22, 5, 1)) is None


def test_calls_that_were_lost_end_the_turn_around_them() -> None:
    loops = inferred()
    found = steps(loops.follow(calls([1] * 20)))["train"]
    later = loops.follow(calls([1] * 20, start=500.0, first=1000))
    assert max(turn.end - turn.start for turn in found + steps(later)["train"]) <= 0.11 * NANOSECONDS
    assert later.outside == {1: 1}


def test_what_was_not_called_for_long_belongs_to_no_loop() -> None:
    loops = inferred()
    loops.follow(calls([1, 1, *[2] * 20]))
    assert loops.settle(50 * NANOSECONDS).outside == {}
    assert loops.settle(100 * NANOSECONDS).outside == {1: 2}


def test_a_call_of_minutes_is_a_step_when_it_ends() -> None:
    loops = inferred()
    loops.follow(calls([1]))
    for minute in range(1, 10):
        assert loops.settle(minute * 60 * NANOSECONDS) == Followed()
    done(loops, 1, 600 * NANOSECONDS)
    assert len(steps(loops.ran(1, 600 * NANOSECONDS))["train"]) == 1


def test_epochs_of_minutes_in_one_call_each_are_a_loop() -> None:
    loops = inferred()
    rows = calls([1] * 3, every=90.0)
    found: list[StepEnded] = []
    for number in range(3):
        followed = loops.follow(rows[number * ROW_LENGTH : (number + 1) * ROW_LENGTH])
        loops.settle((90 * number + 80) * NANOSECONDS)
        found += steps(followed).get("train", [])
    assert [(turn.end - turn.start) / NANOSECONDS for turn in found] == [90, 90]


def test_a_pause_of_minutes_after_the_device_was_done_is_no_part_of_a_turn() -> None:
    """Somebody thinks between two cells of a notebook; a save before that belongs to the step."""
    loops = inferred()
    loops.follow(calls([1], every=3.0))
    done(loops, 1, 3 * NANOSECONDS)
    followed = loops.follow(calls([1], start=600.0, first=2))
    assert [turn.end - turn.start for turn in steps(followed)["train"]] == [3 * NANOSECONDS]
    done(loops, 2, 601 * NANOSECONDS)
    loops.phase_ended(601 * NANOSECONDS, 700 * NANOSECONDS, checkpoint=True)
    followed = loops.follow(calls([1], start=900.0, first=3))
    assert [turn.end - turn.start for turn in steps(followed)["train"]] == [100 * NANOSECONDS]


def test_calls_without_a_name_do_not_pile_up_in_a_turn() -> None:
    """The event that named the function was lost."""
    loops = inferred()
    followed = loops.follow(calls([4, *[9] * (HELD + 100)]))
    assert followed.outside[9] > 100


def test_no_turns_are_held_of_a_function_that_can_be_no_loop_any_more() -> None:
    loops = InferredLoops(str, lambda *_: 0, lambda _: None)
    begun = loops.follow(calls([run for run in range(1, LOOPS + 1) for _ in range(20)]))
    followed = loops.follow(calls([LOOPS + 1] * 50, start=100.0, first=20 * LOOPS + 1))
    assert len({turn.loop for turn in steps_of_rows(begun.rows)}) == LOOPS
    assert followed.outside[LOOPS + 1] >= 48  # but for those of the turn under way


def test_goodput_says_that_it_is_without_the_ninth_function() -> None:
    fold = applied(new_fold(), [created(number, function=f"f{number}") for number in range(1, LOOPS + 2)])
    for run in range(1, LOOPS + 2):
        fold.apply_steps(calls([run] * 20, every=2.0, start=40.0 * run, first=20 * run))
    process = fold.snapshot(at(500)).to_dict()["process"]
    assert len(fold.loops.by_name) == LOOPS
    assert f"`f{LOOPS + 1}`" in process["goodput_reason"]


def test_a_phase_ends_the_turn_in_which_it_began() -> None:
    loops = inferred()
    rows = calls([1] * 9, every=1.0)
    followed = loops.follow(rows[: 5 * ROW_LENGTH])
    loops.phase_ended(round(4.5 * NANOSECONDS), round(4.9 * NANOSECONDS))
    turns = steps(Followed(followed.rows + loops.follow(rows[5 * ROW_LENGTH :]).rows, Counter(), {}, []))[
        "train"
    ]
    assert [(turn.end - turn.start) / NANOSECONDS for turn in turns] == [1, 1, 1, 1, 0.5, 1, 1, 1]


@given(
    st.lists(st.sampled_from([1, 2, 3, 4, 5, -1]), max_size=200),
    st.sampled_from([0.001, 0.1, 3.0]),
    st.lists(st.integers(0, 200), max_size=3),
    st.dictionaries(st.sampled_from([1, 2, 3, 4, 5]), st.sampled_from([0.01, 0.1, 1.0])),
)
def test_every_call_is_told_once_and_steps_of_a_loop_follow_each_other(
    runs: list[int], every: float, cuts: list[int], took: dict[int, float]
) -> None:
    loops = inferred(took=took)
    rows = calls(runs, every)
    told: list[StepEnded] = []
    outside: Counter[int] = Counter()
    edges = [0, *sorted(ROW_LENGTH * cut for cut in cuts), len(rows)]
    for begin, end in itertools.pairwise(edges):
        followed = loops.follow(rows[begin:end])
        told += steps_of_rows(followed.rows)
        outside += followed.outside
    last = loops.end()
    told += steps_of_rows(last.rows)
    outside += last.outside
    assert Counter(run for step in told for run in step.runs) + outside == Counter(runs)
    assert "" not in {step.loop for step in told}
    assert sorted(told, key=lambda step: step.start) == sorted(told, key=lambda step: step.end)
    for before, after in itertools.pairwise(told):
        if before.loop == after.loop:
            assert after.step == before.step + 1
    for name in {step.loop for step in told}:
        assert [step.step for step in told if step.loop == name] == list(
            range(sum(step.loop == name for step in told))
        )


def test_a_checkpoint_between_two_calls_is_part_of_the_step_and_another_phase_ends_it() -> None:
    loops = inferred()
    loops.follow(calls([1] * 40))
    loops.phase_ended(round(4.05 * NANOSECONDS), round(4.08 * NANOSECONDS), checkpoint=True)
    followed = loops.follow(calls([1], start=4.1, first=41))
    (step,) = steps(followed)["train"]
    assert step.end == round(4.1 * NANOSECONDS)
    assert followed.saved == {("train", step.step): round(0.03 * NANOSECONDS)}
    loops.phase_ended(round(4.15 * NANOSECONDS), round(4.18 * NANOSECONDS))
    followed = loops.follow(calls([1], start=4.2, first=42))
    (step,) = steps(followed)["train"]
    assert step.end == round(4.15 * NANOSECONDS)
    assert not followed.saved


def test_a_checkpoint_in_a_turn_before_the_loop_was_found_is_part_of_it() -> None:
    """Saved at the first step, as `save_interval_steps` of Orbax does."""
    loops = inferred()
    loops.follow(calls([1], every=3.0))
    loops.phase_ended(round(0.5 * NANOSECONDS), round(2.9 * NANOSECONDS), checkpoint=True)
    followed = loops.follow(calls([1] * 40, start=3.0, first=2))
    first = steps(followed)["train"][0]
    assert (first.start, first.end) == (0, 3 * NANOSECONDS)
    assert followed.saved == {("train", 0): round(2.4 * NANOSECONDS)}
