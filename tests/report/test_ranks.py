import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.report.ranks import LAGS, Observed, columns, dearest, lags, rank_rows, render_ranks
from tests.sample_document import document, loop


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=16))
def test_what_one_rank_costs_the_others_is_at_most_all_their_time(shares):
    found = [dict(zip(("communication", "input", "host"), share, strict=True)) for share in shares]
    worst = max(range(len(found)), key=lags(found).__getitem__)
    assert all(-1.0 <= cost <= 2.0 for cost in lags(found))
    assert lags([found[0]] * len(found)) == pytest.approx([0.0] * len(found), abs=1e-12)
    mean = sum(share["communication"] for share in found) / len(found)
    if lags(found)[worst] > LAGS and all(share["input"] + share["host"] == 0.0 for share in found):
        assert found[worst]["communication"] < mean


def observed(index, run="first", problem=None, lines=None, samples=400, **parts):
    process = {**document()["process"], "process_index": index, "run": run, "run_id": run}
    process["process_count"] = None
    of_late = {"profile": {"windows": 1}, "host_lines": lines, "host_samples": samples, "recent_seconds": 1e9}
    loops = {"train": {**loop(**parts), **of_late}}
    return Observed(f"node1:{9464 + index}", document(process=process, loops=loops), problem)


def test_the_one_that_waits_least_lags_and_no_other():
    ranks = [observed(rank, communication=0.9, input=0.0, compute=0.1) for rank in range(3)]
    ranks.append(observed(3, communication=0.0, input=0.0, compute=1.0))
    assert [row["lags"] for row in rank_rows(ranks)] == [False, False, False, True]


@pytest.mark.parametrize("count", [2, 4, 64])
def test_one_that_takes_a_tenth_longer_lags_among_few_ranks_as_among_many(count):
    ranks = [observed(rank, communication=0.09, input=0.0, compute=0.91) for rank in range(1, count)]
    ranks.insert(0, observed(0, communication=0.0, input=0.0, compute=1.0))
    rows = rank_rows(ranks)
    assert [row["lags"] for row in rows] == [True] + [False] * (count - 1)
    assert rows[0]["lag"] == pytest.approx(0.09)


def test_windows_that_met_no_whole_step_do_not_tell_that_a_rank_waits_for_nobody():
    """The others seemed to wait for less than the one they waited for, of which a window had met steps."""
    ranks = [observed(rank, communication=0.0, input=0.1, compute=0.0, unknown=0.9) for rank in range(3)]
    ranks.append(observed(3, communication=0.08, input=0.92, compute=0.0))
    assert [row["lags"] for row in rank_rows(ranks)] == [False, False, False, True]


def test_it_is_said_through_what_a_rank_lags_and_what_it_cost_since_the_start():
    usual = {"communication": 0.4, "input": 0.1, "compute": 0.5}
    ranks = [observed(rank, **usual) for rank in range(3)]
    ranks.append(observed(3, communication=0.0, input=0.5, compute=0.5))
    now_and_then = observed(4, **usual)  # it lagged before, and does no more
    now_and_then.document["loops"]["train"] |= {
        "wall_seconds": 100.0,
        "steps": 10_000,
        "components": {"input": 60.0, "compute": 40.0},
    }
    rows = rank_rows([*ranks, now_and_then])
    shown = {column.title: [column.show(row) for row in rows] for column in columns(rows)}
    assert shown["through"] == [None, None, None, "input", None]
    assert shown["costs"] == [None, None, None, "40 %", None]
    assert [bool(cost) for cost in shown["since the start"]] == [False, False, False, True, True]


def test_a_cause_that_does_not_explain_most_of_it_is_not_named():
    ranks = [observed(rank, communication=0.5, input=0.1, host=0.1, compute=0.3) for rank in range(9)]
    ranks.append(observed(9, communication=0.0, input=0.25, host=0.25, compute=0.5))
    rows = rank_rows(ranks)
    assert [row["lags"] for row in rows][-1]
    assert not any(row["through"] for row in rows)


def test_no_rank_lags_through_what_it_waits_for_the_others():
    ranks = [observed(rank, communication=0.1, input=0.5, compute=0.4) for rank in range(3)]
    ranks.append(observed(3, communication=0.1, input=0.56, compute=0.26, unknown=0.08))
    [*_, slowest] = rank_rows(ranks)
    assert (slowest["lags"], slowest["through"]) == (True, "input")


def test_a_rank_that_waits_longer_than_the_others_does_not_lag():
    """It is not known what these spend much of their time on: it may be input as well."""
    ranks = [observed(rank, communication=0.17, input=0.4, compute=0.08, unknown=0.35) for rank in range(3)]
    ranks.append(observed(3, communication=0.24, input=0.6, compute=0.08, unknown=0.08))
    assert not any(row["lags"] for row in rank_rows(ranks))


def test_a_rank_whose_communication_is_not_known_yet_does_not_lag_for_that():
    """Before its first profiler window a loop has no time for communication, which is not known to be none."""
    ranks = [observed(rank, communication=0.9, input=0.0, compute=0.1) for rank in range(3)]
    ranks.append(observed(3, communication=0.0, input=0.0, compute=1.0))
    ranks[3].document["loops"]["train"]["profile"] = None
    rows = rank_rows(ranks)
    assert not any(row["lags"] for row in rows)
    [waits] = [column for column in columns(rows) if column.title == "waits"]
    assert [waits.show(row) for row in rows] == ["90 %", "90 %", "90 %", None]


def test_a_rank_of_whose_time_much_is_not_known_may_wait_then_and_does_not_lag():
    ranks = [observed(rank, communication=0.3, input=0.0, compute=0.7) for rank in range(3)]
    ranks.append(observed(3, communication=0.15, input=0.0, compute=0.7, unknown=0.15))
    assert not any(row["lags"] for row in rank_rows(ranks))


def test_a_rank_lags_only_through_what_its_thread_or_its_device_was_seen_to_do():
    def with_waits(share, index, **parts):
        rest = [("train.py:7 train", "device", share), ("train.py:5 train", "processor", 0.2 - share)]
        lines = [("train.py:3 batches", "marked_input", 0.8), *rest]
        keys = ("line", "activity", "share")
        return observed(index, lines=[dict(zip(keys, each, strict=True)) for each in lines], **parts)

    usual = {"communication": 0.19, "input": 0.8, "compute": 0.01}
    short_runs = {**usual, "communication": 0.12, "host": 0.07}
    alike = [with_waits(0.15, 0, **usual), with_waits(0.14, 1, **short_runs)]
    assert not any(row["lags"] for row in rank_rows(alike)), "a window alone tells them apart"
    slow_host = [alike[0], with_waits(0.08, 1, **short_runs)]
    assert [row["lags"] for row in rank_rows(slow_host)] == [False, True]
    slow_device = {**usual, "communication": 0.09, "compute": 0.11}
    assert rank_rows([alike[0], with_waits(0.15, 1, **slow_device)])[1]["lags"], (
        "its host waits as the other's"
    )
    hidden = [with_waits(0.15, 0, **usual), with_waits(0.05, 1, **usual)]
    assert not any(row["lags"] for row in rank_rows(hidden)), "its device works meanwhile"
    for each in hidden:
        each.document["loops"]["train"]["idle_in_waits"] = True
    assert [row["lags"] for row in rank_rows(hidden)] == [False, True], "its device is idle meanwhile"
    unseen = [observed(0, **usual), observed(1, **short_runs)]
    assert rank_rows(unseen)[1]["lags"], "nothing says that it is not so"


def test_a_rank_of_whose_work_nothing_is_known_may_wait_in_it_and_does_not_lag():
    """Its windows were shorter than a run: they told no collective, and its work is unmodelled as a whole."""
    ranks = [observed(0, communication=0.0, unmodelled=0.8, compute=0.0, input=0.2)]
    ranks.append(observed(1, communication=0.7, compute=0.1, input=0.2))
    lines = [{"activity": "device", "share": 0.8}, {"activity": "input", "share": 0.2}]
    for rank in ranks:
        rank.document["loops"]["train"] |= {"idle_in_waits": True, "host_lines": lines}
    ranks[0].document["loops"]["train"]["profile"] = None
    assert not any(row["lags"] for row in rank_rows(ranks))


def test_ranks_that_are_alike_do_not_lag():
    assert not any(row["lags"] for row in rank_rows([observed(rank) for rank in range(4)]))


@pytest.mark.parametrize(
    ("activities", "steps", "marked"),
    [
        (["device", "waiting", "device"], [700, 700, 700], ["1"]),
        (["device", "device", "device"], [700, 700, 699], ["2"]),
        (
            [None, "device", None],
            [700, 700, 700],
            [],
        ),  # it waits for one that is not known to stand still yet
        ([None, None, None], [700, 700, 700], []),
        (["device", "device", "device"], [700, 700, 700], []),  # they wait for something else
        (["device", "device", None], [700, 700, 701], []),  # it may be ahead of its device
    ],
)
def test_of_ranks_that_hang_the_one_is_marked_for_which_the_others_wait(activities, steps, marked):
    ranks = [observed(rank) for rank in range(3)]
    for rank, activity, ended in zip(ranks, activities, steps, strict=True):
        rank.document["loops"]["train"]["steps"] = ended
        hang = {"over": False, "seconds": 43.0, "line": "train.py:9 callback", "activity": activity}
        counted = {"loop": "train", "steps": ended, "steps_in_flight": 0}
        rank.document["hangs"] = [hang | counted] if activity else []
    rows = rank_rows(ranks)
    assert [row["rank"] for row in rows if row["hangs"]] == [int(rank) for rank in marked]
    shown = {column.title: [column.show(row) for row in rows] for column in columns(rows)}
    assert [name for name in shown["rank"] if "hangs" in str(name)] == [f"{rank} ◀ hangs" for rank in marked]
    assert (
        "43 s: train.py:9 callback" in shown["no step for"] if any(activities) else "no step for" not in shown
    )


def hanging(steps, rank, problem=None, line="train.py:9 f", activity="device", in_flight=0):
    one = observed(rank, problem=problem)
    one.document["loops"]["train"]["steps"] = steps
    hang = {"over": False, "seconds": 43.0, "line": line, "activity": activity}
    one.document["hangs"] = [{**hang, "loop": "train", "steps": steps, "steps_in_flight": in_flight}]
    return one


def test_ranks_that_wait_for_one_that_is_gone_are_not_accused():
    gone = observed(0, problem="nothing new for 50 s")
    gone.document["loops"]["train"]["steps"] = 700
    rows = rank_rows([gone, hanging(700, 1), hanging(700, 2)])
    assert not any(row["hangs"] for row in rows)
    assert dearest(rows) == "2 ranks wait for their devices: no step for 43 s: train.py:9 f"
    one = rank_rows([gone, hanging(700, 1)])
    assert dearest(one) == "Rank 1 waits for its device: no step for 43 s: train.py:9 f"
    assert dearest(rank_rows([gone, hanging(700, 1, problem="nothing new for 50 s")])) is None
    assert dearest(rank_rows([hanging(699, 1), hanging(700, 2)])) == (
        "Rank 1 hangs (it has ended the fewest steps, 699): no step for 43 s: train.py:9 f"
    )


def test_of_ranks_that_wait_none_is_accused_while_one_behind_them_is_not_known_to_stand_still():
    behind = observed(0)
    behind.document["loops"]["train"]["steps"] = 655
    assert not any(row["hangs"] for row in rank_rows([behind, hanging(687, 1), hanging(688, 2)]))


def test_where_all_wait_for_the_device_the_one_that_waits_at_another_line_hangs():
    alike = [hanging(700, rank) for rank in range(3)]
    rows = rank_rows([*alike, hanging(700, 3, line="train.py:4 train_step")])
    assert [row["hangs"] for row in rows] == [False, False, False, True]
    assert dearest(rows).startswith("Rank 3 hangs (its thread is at another line than all others): ")
    both = rank_rows([hanging(700, 0), hanging(700, 1, line="train.py:4 train_step")])
    assert not any(row["hangs"] for row in both), "of two neither is the odd one"
    three = rank_rows([*(hanging(700, rank, line=f"train.py:{rank} f") for rank in range(3))])
    assert not any(row["hangs"] for row in three)


def test_a_rank_that_reads_its_result_while_others_run_ahead_does_not_hang_for_its_line():
    """As the first, which alone logs the loss: it may be any of them whose collective does not begin."""
    ahead = [hanging(732, rank, line="train.py:12 train", in_flight=32) for rank in (1, 2, 3)]
    rows = rank_rows([hanging(700, 0, line="train.py:15 log"), *ahead])
    assert not any(row["hangs"] for row in rows)
    assert dearest(rows).startswith("4 ranks wait for their devices: ")
    evaluates = hanging(20, 0, line="train.py:40 evaluate")
    evaluates.document["hangs"][0]["loop"] = "eval"
    assert [row["hangs"] for row in rank_rows([evaluates, *ahead])] == [True, False, False, False]


def test_a_rank_alone_hangs_by_itself_but_one_of_which_the_others_are_not_seen_does_not():
    (row,) = rank_rows([hanging(700, 0)])
    assert row["hangs"]
    of_four = [hanging(700, 0), hanging(699, 1)]
    for one in of_four:
        one.document["process"]["process_count"] = 4
    assert not any(row["hangs"] for row in rank_rows(of_four)), "what all wait for may be on another host"
    assert not any(row["hangs"] for row in rank_rows(of_four[:1]))


@pytest.mark.parametrize(("in_flight", "accused"), [((0, 1), False), ((0, None), False), ((1, 0), True)])
def test_a_host_that_is_ahead_of_its_device_by_more_steps_leaves_no_rank_behind(in_flight, accused):
    rows = rank_rows([hanging(700, 0, in_flight=in_flight[0]), hanging(701, 1, in_flight=in_flight[1])])
    assert [row["hangs"] for row in rows] == [accused, False]


def test_steps_are_not_compared_where_they_are_of_other_loops_or_some_were_lost_with_an_agent():
    other = hanging(20, 0)
    other.document["hangs"][0]["loop"] = "eval"
    lost = hanging(20, 0)
    lost.document["process"]["counts_begin_seconds"] = 600.0
    for rank in (other, lost):
        assert not any(row["hangs"] for row in rank_rows([rank, hanging(700, 1)]))


def test_ranks_that_wait_together_are_not_accused_while_one_is_in_a_checkpoint():
    busy = observed(0)
    busy.document["process"]["phases"] = {"checkpoint": 41.0}
    waiting = [hanging(700, rank, line="train.py:30 barrier", activity="waiting") for rank in (1, 2)]
    rows = rank_rows([busy, *waiting])
    assert not any(row["hangs"] for row in rows)
    assert dearest(rows) == (
        "2 ranks stand still: no step for 43 s: train.py:30 barrier; rank 0 is in phase checkpoint for 41 s"
    )
    shown = {column.title: [column.show(row) for row in rows] for column in columns(rows)}
    assert shown["meanwhile"][0] == "in phase checkpoint for 41 s"
    busy.document["process"]["phases"] = {}
    busy.document["loops"]["train"]["left_seconds"] = 41.0
    assert dearest(rank_rows([busy, *waiting])).endswith("; rank 0 is out of its loop for 41 s")
    at_lines = [hanging(700, rank, line=f"train.py:{rank} f", activity="waiting") for rank in (1, 2)]
    assert not any(row["hangs"] for row in rank_rows([busy, *at_lines]))
    assert not any(row["hangs"] for row in rank_rows([busy, waiting[0]])), "it may be at the barrier"
    at_work = hanging(700, 1, activity="processor")
    assert [row["hangs"] for row in rank_rows([busy, at_work])] == [False, True]
    busy.document["loops"]["train"]["left_seconds"] = None
    assert [row["hangs"] for row in rank_rows([busy, waiting[0]])] == [False, True], (
        "nothing is to be waited for"
    )


def test_of_ranks_none_of_which_waits_for_its_device_the_one_at_another_line_hangs():
    alike = [hanging(700, rank, line="train.py:30 barrier", activity="waiting") for rank in range(3)]
    rows = rank_rows([*alike, hanging(700, 3, line="data.py:7 read", activity="waiting")])
    assert [row["hangs"] for row in rows] == [False, False, False, True]
    assert all(row["hangs"] for row in rank_rows(alike)), "none of them waits for its device"
    assert dearest(rank_rows(alike)).endswith("no step for 43 s: train.py:30 barrier; 2 other ranks too")


@pytest.mark.parametrize(
    ("line", "activity", "accused"),
    [
        ("train.py:9 evaluate", "processor", [True, False, False]),
        (None, None, [True, False, False]),  # it does not answer
        (None, "unknown", [False, False, False]),  # it answers, but its stacks were lost
    ],
)
def test_ranks_in_a_barrier_are_not_accused_beside_one_that_is_not_known_to_be_there(line, activity, accused):
    one = hanging(700, 0, line=line, activity=activity)
    waiting = [hanging(700, rank, line="train.py:30 barrier", activity="waiting") for rank in (1, 2)]
    assert [row["hangs"] for row in rank_rows([one, *waiting])] == accused
    assert [row["hangs"] for row in rank_rows([one, waiting[0]])] == accused[:2]


def test_ranks_in_a_barrier_are_not_accused_where_what_they_wait_for_may_be_gone_or_on_another_host():
    waiting = [hanging(700, rank, line="train.py:30 barrier", activity="waiting") for rank in (1, 2)]
    gone = observed(0, problem="nothing new for 50 s")
    assert not any(row["hangs"] for row in rank_rows([gone, waiting[0]]))
    at_device = hanging(700, 3)
    for one in (*waiting, at_device):
        one.document["process"]["process_count"] = 4
    assert not any(row["hangs"] for row in rank_rows(waiting[:1]))
    assert [row["hangs"] for row in rank_rows([waiting[0], at_device])] == [True, False]


def test_a_rank_whose_stacks_were_lost_is_not_at_another_line_than_all_others():
    lost = hanging(700, 3, line=None, activity="unknown")
    rows = rank_rows([*(hanging(700, rank) for rank in range(3)), lost])
    assert not any(row["hangs"] for row in rows)


def test_a_rank_whose_thread_is_not_known_to_do_anything_of_its_own_is_not_accused():
    rows = rank_rows([hanging(700, 0, activity="unknown"), hanging(700, 1)])
    assert not any(row["hangs"] for row in rows)


def test_no_rank_lags_while_ranks_stand_still():
    """The shares are those of the last steps, and say nothing of what they wait for now."""
    ranks = [observed(0, communication=0.0, input=0.0, compute=1.0)]
    ranks += [observed(rank, communication=0.9, input=0.0, compute=0.1) for rank in (1, 2)]
    assert dearest(rank_rows(ranks)).startswith("Rank 0 lags")
    ranks[1].document["hangs"] = hanging(100, 1).document["hangs"]
    rows = rank_rows(ranks)
    assert not any(row["lags"] for row in rows)
    assert dearest(rows).startswith("Rank 1 waits for its device")


def test_what_a_silent_thread_does_is_not_made_up():
    stopped = hanging(700, 1, line=None, activity=None)
    stopped.document["hangs"][0]["line_reason"] = "the process does not answer"
    assert dearest(rank_rows([hanging(700, 0), stopped])) == (
        "Rank 1 hangs (the stack of its thread did not come): no step for 43 s: the process does not answer"
    )


@pytest.mark.parametrize("pause", [1.0, 40.0])
def test_a_rank_does_not_lag_for_what_the_others_waited_beside_its_loop(pause):
    """One has evaluated, or compiled, alone: steps of the others then took longer, and its own did not."""
    ranks = [observed(0, communication=0.45, input=0.5, compute=0.05)]
    ranks += [observed(rank, input=0.5, compute=0.05, communication=0.1, unknown=pause) for rank in (1, 2)]
    assert not any(row["lags"] for row in rank_rows(ranks))
    ranks[0] = observed(0, communication=0.0, input=1.5 * pause, compute=0.05)
    assert [row["lags"] for row in rank_rows(ranks)] == [True, False, False], "it takes longer in its loop"


def test_a_rank_whose_steps_take_longer_in_all_their_parts_does_not_lag():
    """It does other work, and nobody waits for it."""
    ranks = [observed(rank, input=0.3, host=0.2, compute=0.5) for rank in range(2)]
    ranks.append(observed(2, input=3.0, host=2.0, compute=5.0))
    assert not any(row["lags"] for row in rank_rows(ranks))


@pytest.mark.parametrize(
    ("is_marked", "activity", "samples", "told"),
    [
        (False, "input", 40, False), (False, "input", 4_000, True), (True, "input", 40, True),
        (True, "processor", 40, False), (True, "processor", 4_000, True),
    ],
)  # fmt: skip
def test_samples_tell_no_closer_than_so_many_can_and_marks_tell_what_is_input(
    is_marked, activity, samples, told
):
    def spending(rank, spent):
        lines = [{"activity": activity, "share": spent}, {"activity": "device", "share": 1 - spent}]
        waits = {"input": spent * (activity == "input"), "compute": 0.05}
        one = observed(rank, lines=lines, samples=samples, communication=0.95 - waits["input"], **waits)
        one.document["loops"]["train"] |= {"inferred": not is_marked, "idle_in_waits": True}
        return one

    rows = rank_rows([spending(0, 0.4), spending(1, 0.6)])
    assert [row["lags"] for row in rows] == [False, told]


def test_of_many_ranks_that_are_alike_hardly_any_lags_by_the_chance_of_its_samples():
    """As seldom as of two: in one look of three hundred."""
    chance = random.Random(1)

    def sampled(rank):
        away = sum(chance.random() < 0.4 for _ in range(80)) / 80
        lines = [{"activity": "processor", "share": away}, {"activity": "device", "share": 1 - away}]
        one = observed(rank, lines=lines, samples=80, communication=0.9, input=0.0, compute=0.1)
        one.document["loops"]["train"] |= {"inferred": True, "idle_in_waits": True}
        return one

    looks = [rank_rows([sampled(rank) for rank in range(256)]) for _ in range(20)]
    assert sum(row["lags"] for rows in looks for row in rows) <= 1


@pytest.mark.parametrize("lines", [None, [{"activity": "input", "share": 1.0}]])
def test_a_few_samples_that_agree_by_chance_are_not_certain(lines):
    ranks = [observed(0, lines=lines, samples=4, communication=0.05, input=0.95)]
    ranks.append(observed(1, lines=lines, samples=4, communication=0.2, input=0.8))
    for rank in ranks:
        rank.document["loops"]["train"]["inferred"] = True
    assert not any(row["lags"] for row in rank_rows(ranks))


def test_ranks_in_other_loops_are_not_compared():
    """As where one evaluates for longer than it trains: its evaluation is no step that the others wait in."""
    ranks = [observed(rank, communication=0.4, input=0.0, compute=0.6) for rank in range(3)]
    ranks[2].document["loops"] = {"eval": {**loop(input=9.0), "profile": {"windows": 1}}}
    assert not any(row["lags"] or row["lag"] for row in rank_rows(ranks))


def test_a_rank_that_is_gone_neither_lags_nor_makes_another_lag():
    ranks = [observed(rank, communication=0.4, input=0.0, compute=0.6) for rank in range(2)]
    gone = observed(2, problem="nothing listens", communication=0.0, input=0.0, compute=1.0)
    rows = rank_rows([*ranks, gone])
    assert not any(row["lags"] for row in rows)
    assert dearest(rows) is None


def test_ranks_of_different_runs_are_not_compared_and_their_runs_are_named():
    rows = rank_rows([observed(0, run="first"), observed(0, run="second", input=9.0)])
    assert not any(row["lags"] for row in rows)
    assert "run" in [column.title for column in columns(rows)]


def test_ranks_of_two_jobs_of_one_id_are_not_compared():
    """As of two that one user has started by hand at a time: nothing tells which of them a rank is of."""
    ranks = [observed(rank, communication=0.0 if rank else 0.9, input=0.9 * rank) for rank in (0, 1)]
    assert [row["lags"] for row in rank_rows(ranks)] == [False, True]
    assert not any(row["lags"] for row in rank_rows([*ranks, *ranks]))
    assert dearest(rank_rows([hanging(699, 0), hanging(700, 1), hanging(700, 1)])).startswith("3 ranks wait")
    ended = observed(1, problem="nothing listens")
    assert [row["lags"] for row in rank_rows([*ranks, ended])] == [False, True, False]


def test_a_rank_that_is_gone_is_marked():
    rows = rank_rows([observed(0), observed(1, problem="nothing listens at node1:9465")])
    assert [next(columns(rows)).show(row) for row in rows] == ["0", "1 ✗"]


def test_a_process_whose_rank_is_not_known_yet_is_called_by_its_address():
    starting = [
        Observed(f"node1:{port}", {"process": {"run_id": "first", "seconds": 3.0}}) for port in (9464, 9465)
    ]
    shown = render_ranks(starting, {"node1:9464"}, width=100, bold=False)
    assert "None" not in shown
    assert "\nnode1:9464\njaxobs: 3 s observed" in shown
