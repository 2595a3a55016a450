"""Where the whole process's time went: each second once, and all of them."""

from __future__ import annotations

from collections.abc import Sequence
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.derive.loops.goodput import MAX_PHASES
from jaxobs.model.events import (
    UNMARKED,
    CompilePhaseStarted,
    Event,
    ExecutableRan,
    FunctionWatched,
    LoopEnded,
    LoopEntered,
    PhaseEnded,
    PhaseStarted,
    ProbeReported,
)
from jaxobs.model.intervals import Intervals
from jaxobs.vocabulary.text import EAGER
from tests.derive.made_up import (
    BEGAN,
    SECOND,
    applied,
    at,
    compiled,
    created,
    families,
    new_fold,
    run_seconds,
    step,
    waits,
)


def test_the_categories_add_up_to_the_age_of_the_process() -> None:
    events = [
        PhaseEnded("initialisation", None, at(0.5), at(1.0), 0),
        compiled(1.0, 3.0),  # the wait for the first item lies in it
        step(0, 2.0, 5.0, wait=0.5, checkpoint=0.25),
        step(1, 5.0, 6.0, wait=0.5),
        LoopEnded("train", at(6.0), 0),
    ]
    charged = run_seconds(applied(new_fold(), events), 10.0)
    assert charged == pytest.approx(
        {"productive": 2.25, "input": 0.5, "checkpoint": 0.25, "compile": 2.0, "initialisation": 1.0,
         "stalled": 0.0, "other": 4.0}
    )  # fmt: skip
    assert sum(charged.values()) == pytest.approx(10.0)


def test_after_the_first_step_what_nothing_explains_is_other() -> None:
    fold = applied(new_fold(), [step(0, 1.0, 3.0), LoopEnded("train", at(3.0), 0)])
    run_seconds(fold, 3.5)
    charged = run_seconds(fold, 20.0)
    assert charged["productive"] == pytest.approx(2.0)
    assert charged["other"] == pytest.approx(17.0)
    assert families(fold.snapshot(at(20)))["jaxobs_goodput_ratio"][()] == pytest.approx(0.1)


def test_goodput_is_absent_where_little_work_was_seen_in_a_short_run() -> None:
    fold = applied(new_fold(), [step(0, 1.0, 2.0), LoopEnded("train", at(2.0), 0)])
    early = fold.snapshot(at(10)).document["process"]
    assert early["goodput"] is None
    assert "less than two seconds of steps" in early["goodput_reason"]
    assert fold.snapshot(at(100)).document["process"]["goodput"] == pytest.approx(0.01)


def test_of_more_steps_that_are_not_charged_yet_it_is_not_said_that_few_were_seen() -> None:
    fold = applied(new_fold(), [step(0, 1.0, 2.0), PhaseStarted("checkpoint", None, at(2.0))])
    process = fold.snapshot(at(10)).document["process"]
    assert process["goodput"] is None
    assert process["goodput_reason"].startswith("what the last 8 s went into is known once")


def test_while_a_loop_runs_time_is_charged_up_to_its_last_step() -> None:
    fold = applied(new_fold(), [step(0, 1.0, 2.0)])
    assert sum(run_seconds(fold, 5.0).values()) == pytest.approx(2.0)
    fold.apply(step(1, 2.0, 6.0))
    charged = run_seconds(fold, 6.5)
    assert sum(charged.values()) == pytest.approx(6.0)
    assert charged["productive"] == pytest.approx(5.0)


def test_a_loop_that_never_said_it_is_over_does_not_stop_the_clock() -> None:
    """`with obs.step()` has no end of the loop."""
    fold = applied(new_fold(), [step(0, 1.0, 2.0)])
    run_seconds(fold, 3.0)
    assert sum(run_seconds(fold, 100.0).values()) == pytest.approx(100.0)


def test_an_inner_loop_that_ends_leaves_the_outer_ones_step_its_time() -> None:
    fold = applied(
        new_fold(), [step(0, 1.0, 2.0), step(0, 3.0, 4.0, loop="eval"), LoopEnded("eval", at(4), 0)]
    )
    run_seconds(fold, 10.0)  # the outer step is under way: nothing is said of its time yet
    fold.apply(step(1, 2.0, 12.0, nested=1.0))
    charged = run_seconds(fold, 12.0)
    assert charged["productive"] == pytest.approx(11.0)
    assert charged["other"] == pytest.approx(0.0)


def test_compiles_on_many_threads_at_once_count_once() -> None:
    fold = applied(new_fold(), [compiled(1.0, 2.0 + thread / 64, thread=thread) for thread in range(64)])
    assert run_seconds(fold, 3.0)["compile"] == pytest.approx(1.0 + 63 / 64)
    assert run_seconds(fold, 100.0)["compile"] == pytest.approx(1.0 + 63 / 64)


def test_a_second_of_a_compile_in_a_phase_is_the_compiles_alone() -> None:
    """The orders of their ends and of their categories make no difference."""
    save, restore = (PhaseEnded(word, None, at(4), at(10), 0) for word in ("checkpoint", "initialisation"))
    for first, second, third in ((compiled(5, 9), save, restore), (restore, save, compiled(5, 9))):
        fold = applied(new_fold(), [step(0, 1.0, 3.0), LoopEnded("train", at(3.0), 0)])
        charged = run_seconds(applied(fold, [first, second, third]), 20.0)
        assert (charged["compile"], charged["checkpoint"]) == pytest.approx((4.0, 2.0))
        assert (charged["initialisation"], charged["other"]) == pytest.approx((1.0, 11.0))


def test_a_compile_in_a_step_is_told_though_later_steps_came_before_the_report_of_their_time() -> None:
    fold = applied(new_fold(), [ProbeReported(1, 0, 0, 0, 0.0, at(2)), LoopEntered("train", at(1))])
    applied(fold, [compiled(1.1, 1.9), waits(1.9), step(0, 1.0, 2.0, runs=(1,))])
    applied(fold, [step(i, 1.9 + i / 10, 2.0 + i / 10, runs=(1,)) for i in range(1, 21)])
    assert run_seconds(fold, 4.1)["compile"] == pytest.approx(0.8)
    applied(fold, [LoopEnded("train", at(4), 0), ProbeReported(1, 0, 0, 0, 0.0, at(6))])
    charged = run_seconds(fold, 6.0)
    told = charged["compile"], charged["productive"], charged["other"]
    assert told == pytest.approx((0.8, 2.2, 2.0))


def test_a_compile_beside_the_steps_is_not_charged_to_idle_time_later() -> None:
    fold = applied(
        new_fold(), [compiled(1.0, 9.0, thread=2), step(0, 1.0, 9.0), LoopEnded("train", at(9), 0)]
    )
    run_seconds(fold, 9.0)
    charged = run_seconds(fold, 30.0)
    assert charged["compile"] == pytest.approx(0.0)
    assert charged["other"] == pytest.approx(21.0)


def test_while_a_compile_is_under_way_nothing_is_said_of_its_time() -> None:
    fold = applied(new_fold(), [step(0, 1.0, 2.0), LoopEnded("train", at(2.0), 0)])
    fold.apply(CompilePhaseStarted("f", "backend", 1, at(3.0)))
    assert sum(run_seconds(fold, 100.0).values()) == pytest.approx(3.0)
    fold.apply(compiled(3.0, 103.0))
    charged = run_seconds(fold, 104.0)
    assert (charged["compile"], charged["other"]) == (pytest.approx(100.0), pytest.approx(2.0))


def test_loops_beside_each_other_on_two_threads_are_not_made_up_for_with_idle_time() -> None:
    events: list[Event] = [
        step(0, 1.0, 9.0, thread=1), step(0, 1.0, 9.0, loop="other", thread=2),
        LoopEnded("train", at(9), 0), LoopEnded("other", at(9), 0),
    ]  # fmt: skip
    fold = applied(new_fold(), events)
    assert run_seconds(fold, 9.0)["productive"] == pytest.approx(8.0)
    charged = run_seconds(fold, 30.0)
    assert (charged["productive"], charged["other"]) == (pytest.approx(8.0), pytest.approx(21.0))


spans = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 50)), max_size=20)


@given(spans, st.lists(st.integers(0, 300), max_size=5))
def test_intervals_are_counted_once_whatever_their_order(
    parts: list[tuple[int, int]], cuts: list[int]
) -> None:
    intervals = Intervals()
    for start, length in parts:
        intervals.add(start, start + length)
    covered = {point for start, length in parts for point in range(start, start + length)}
    taken = 0
    for cut in sorted(cuts):
        taken += intervals.take(cut)
        assert taken == len([point for point in covered if point < cut])
    assert taken + intervals.take(1_000) == len(covered)


def test_intervals_are_added_in_a_time_that_does_not_grow_with_those_there() -> None:
    intervals, began = Intervals(), process_time()
    for start in range(20_000):
        intervals.add(2 * start, 2 * start + 1)
    assert process_time() - began < 5.0  # it is 0.01 s, and was half a minute where all were sorted each time
    assert intervals.take(40_000) == 20_000


def test_the_process_began_before_it_was_observed() -> None:
    assert sum(run_seconds(new_fold(), 7.0).values()) == pytest.approx(7.0)
    assert new_fold().snapshot(BEGAN + 3 * SECOND).to_dict()["process"]["seconds"] == 3.0


def test_a_phase_under_way_is_charged_to_nothing_else_before_it_ends() -> None:
    fold = applied(new_fold(), [step(0, 1.0, 2.0), LoopEnded("train", at(2.0), 0)])
    fold.apply(PhaseStarted("checkpoint", None, at(2.0)))
    for moment in (3.0, 4.0, 5.0):
        assert run_seconds(fold, moment)["other"] == 0
    applied(fold, [PhaseEnded("checkpoint", None, at(2.0), at(5.5), 0)])
    charged = run_seconds(fold, 6.0)
    assert (charged["checkpoint"], charged["other"]) == (pytest.approx(3.5), pytest.approx(0.5))


def test_without_steps_there_is_no_goodput_and_not_one_of_zero() -> None:
    assert "jaxobs_goodput_ratio" not in families(new_fold().snapshot(at(5.0)))


def test_what_follows_the_first_executable_without_a_step_is_no_initialisation() -> None:
    """A script that marks no step."""
    fold = applied(new_fold(), [compiled(1.0, 1.5, function=EAGER), compiled(4.0, 6.0)])
    for moment in range(4, 100):
        charged = run_seconds(fold, float(moment))
    assert charged["initialisation"] == pytest.approx(3.5)
    assert charged["compile"] == pytest.approx(2.5)
    assert charged["other"] == pytest.approx(99.0 - 6.0)


def test_a_phase_that_is_called_initialisation_is_that_also_after_the_first_executable() -> None:
    events = [compiled(1.0, 2.0), PhaseEnded("initialisation", None, at(3.0), at(6.0), 0)]
    charged = run_seconds(applied(new_fold(), events), 7.0)
    assert charged["initialisation"] == pytest.approx(1.0 + 3.0)
    assert charged["other"] == pytest.approx(2.0)


def test_goodput_is_absent_where_steps_were_dropped_on_their_way() -> None:
    events: list[Event] = [
        step(0, 1.0, 5.0),
        step(9, 15.0, 19.0),
        ProbeReported(1_000, 600, 0, 0, 0.0, at(20.0)),
    ]
    process = applied(new_fold(), events).snapshot(at(20)).document["process"]
    assert process["goodput"] is None
    assert process["goodput_reason"].startswith("60 % of the events were dropped")


def test_time_waits_for_a_loop_that_is_only_found_after_some_turns() -> None:
    """Calls each half a second from the first second on: after the third they are a loop, from the first one on."""
    fold = applied(new_fold(), [created(1), waits(loop="f")])
    for number in range(1, 20):
        began = 0.5 + 0.5 * number
        fold.apply_steps([UNMARKED, number, at(began), at(began), 0, 0, 1_000, None, None, 1, 1])
        run_seconds(fold, began + 0.4)
    charged = run_seconds(fold, 10.4)
    assert charged["initialisation"] == pytest.approx(1.0)
    assert charged["productive"] == pytest.approx(9.0)


def unmarked_calls(runs: Sequence[int], every: float, first: int = 1, start: float = 1.0) -> list[object]:
    """Rows of calls that nobody marked, each `every` seconds, numbered from `first` on."""
    rows: list[object] = []
    for place, run in enumerate(runs):
        begin = at(start + place * every)
        rows += (UNMARKED, first + place, begin, begin + 1_000, 0, 0, 1_000, None, None, 1, run)
    return rows


def test_a_found_loop_that_another_one_follows_holds_nothing_back() -> None:
    """An evaluation of two seconds, then a training of ten: nothing says that the evaluation is over but the training."""
    watched = [FunctionWatched(-1, "train", "", at(0)), FunctionWatched(-2, "evaluate", "", at(0))]
    fold = applied(new_fold(), [*watched, waits(loop="train"), waits(loop="evaluate")])
    fold.apply_steps(unmarked_calls([*[-2] * 20, *[-1] * 101], 0.1))
    assert run_seconds(fold, 13.05)["productive"] == pytest.approx(12.0)


def test_at_the_end_of_the_job_all_its_time_is_charged() -> None:
    """Steps that are marked one by one never say that their loop is over."""
    evaluation = [step(number, 1.0 + number, 2.0 + number, loop="eval") for number in range(5)]
    training = [step(number, 6.0 + number, 7.0 + number) for number in range(20)]
    fold = applied(new_fold(), [*evaluation, *training, PhaseStarted("checkpoint", None, at(26.5))])
    assert run_seconds(fold, 30.0)["productive"] == pytest.approx(5.0)
    fold.end(at(30.0), by_itself=False)
    charged = run_seconds(fold, 30.0)
    assert charged["productive"] == pytest.approx(25.0)
    assert sum(charged.values()) == pytest.approx(30.0)


def test_at_the_end_steps_are_charged_that_came_without_a_report_that_all_before_them_has_come() -> None:
    """An agent that is far behind reads steps for many seconds, and the report that would follow them never comes."""
    fold = applied(new_fold(), [step(0, 1.0, 2.0), ProbeReported(1, 0, 0, 0, 0.0, at(2.0))])
    applied(fold, [step(number, 1.0 + number, 2.0 + number) for number in range(1, 20)])
    assert run_seconds(fold, 21.5)["productive"] == pytest.approx(1.0)
    fold.end(at(21.5), by_itself=True)
    charged = run_seconds(fold, 21.5)
    assert charged["productive"] == pytest.approx(20.0)
    assert sum(charged.values()) == pytest.approx(21.5)


def test_host_time_between_epochs_is_not_taken_for_that_of_an_evaluation_too_short_to_be_timed() -> None:
    made = [
        created(1, "train", proto=b"train"),
        created(2, "evaluate", proto=b"evaluate")._replace(memory=(("argument", 8),)),
    ]
    times = [ExecutableRan(1, 0.1, 0.001, at(0.5)), ExecutableRan(2, 0.0001, 0.0005, at(0.5))]
    fold = applied(new_fold(), [*made, *times])
    fold.apply_steps(unmarked_calls([1, 2] * 10, 0.4))
    assert list(fold.snapshot(at(9)).to_dict()["loops"]) == ["train"]


def test_work_of_a_loop_is_not_lost_while_other_calls_are_undecided() -> None:
    """Two evaluations of a moment each may be a loop once; until that is known the loop beside them waits as well."""
    watched = [FunctionWatched(-1, "train", "", at(0)), FunctionWatched(-2, "evaluate", "", at(0))]
    fold = applied(new_fold(), watched)

    def calls(runs: list[int], first: int) -> list[object]:
        rows: list[object] = []
        for number, run in enumerate(runs, first):
            begin, end = at(number / 10), at(number / 10 + 0.01)
            rows += (UNMARKED, number, begin, end, 0, 0, end - begin, None, None, 1, run)
        return rows

    runs = [-1, *[-2] * 4, *[-1] * 200]
    for start in range(0, len(runs), 20):
        fold.apply_steps(calls(runs[start : start + 20], start + 1))
        spent = run_seconds(fold, (start + 20) / 10 + 0.01)
    fold.end(at(21), by_itself=True)
    spent = run_seconds(fold, 21)
    assert spent["productive"] == pytest.approx(20, abs=1)
    assert spent["other"] < 1


def test_steps_that_come_before_the_report_of_their_time_are_not_lost() -> None:
    """A snapshot falls between the steps of a second and the report that everything of that second was told."""
    fold = new_fold()
    for second in range(1, 11):
        applied(fold, [step(10 * second + n, second + n / 10, second + (n + 1) / 10) for n in range(10)])
        if second % 3:
            fold.apply(ProbeReported(10, 0, 0, 0, 0.0, at(second + 1)))
        spent = run_seconds(fold, second + 1.1)
    fold.end(at(11), by_itself=True)
    spent = run_seconds(fold, 12.0)
    assert spent["productive"] == pytest.approx(10.0, abs=0.2)


def test_the_time_of_each_phase_is_known_by_its_name_without_what_is_in_it() -> None:
    fold = applied(new_fold(), [PhaseEnded("evaluation", "train", at(1.0), at(5.0), SECOND)])
    applied(fold, [PhaseEnded("evaluation", None, at(6.0), at(7.0), 0)])
    applied(
        fold, [PhaseEnded(f"phase {number}", None, at(8.0), at(9.0), 0) for number in range(2 * MAX_PHASES)]
    )
    snapshot = fold.snapshot(at(10.0))
    known = snapshot.to_dict()["process"]["phase_seconds"]
    assert known["evaluation"] == 4.0
    assert len(known) == MAX_PHASES
    assert families(snapshot)["jaxobs_phase_seconds_total"][("evaluation",)] == 4.0
