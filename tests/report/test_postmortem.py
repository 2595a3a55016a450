"""The story that `jaxobs postmortem` tells of what the recorders of a run's ranks kept."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from jaxobs.cli import main
from jaxobs.report.postmortem import RECORDER, Flight, Moment, clocks_ahead, read_flight, story
from jaxobs.report.text_table import to_text


def lines_of(last_step: float, seen_until: float, ahead: float = 0.0) -> list[dict[str, Any]]:
    """A line each second of a loop that did a step each second until `last_step`, by a clock that is so far ahead."""
    told = {"step_seconds": 1.0, "label": "compute", "recorded": {"loss": 0.5}}
    return [
        {
            "at": at + ahead, "seconds": float(at), "memory": 1e9,
            "loops": {"train": {"steps": min(at, last_step), **told}},
        }
        for at in range(int(seen_until) + 1)
    ]  # fmt: skip


def written(folder: Path, lines: list[dict[str, Any]], **who: str) -> Path:
    """A folder with a recorder of these lines."""
    folder.mkdir()
    head = {
        "at": 0.0,
        "who": {"jaxobs.run_id": "a1", **{key.replace("__", "."): value for key, value in who.items()}},
    }
    text = (json.dumps(line, separators=(",", ":")) + "\n" for line in (head, *lines))
    (folder / RECORDER).write_text("".join(text))
    return folder


def flight(rank: int, last_step: float, seen_until: float, **last: Any) -> Flight:
    """A rank whose only loop did a step each second until `last_step`."""
    found = Flight(
        {"jaxobs.run": "night", "jaxobs.run_id": "a1", "jax.process_index": str(rank), "host.name": "n0"}
    )
    for line in lines_of(last_step, seen_until):
        found.add({**line, "hang": []})
    found.moments[-1] = {**found.moments[-1], **last}
    return found


def told(*flights: Flight) -> str:
    return to_text(story(flights), width=200)


def test_the_rank_that_stopped_first_is_named_with_what_was_under_way() -> None:
    text = told(flight(0, 90, 120), flight(1, 71, 120, phases={"checkpoint": 49.0}), flight(2, 90, 118))
    assert "rank 1 stopped first, 19 s before the next" in text
    rows = [line for line in text.splitlines() if " n0 " in line]
    assert [row.split()[0] for row in rows] == ["1", "0", "2"]
    assert "71 of train" in rows[0]
    assert "in phase checkpoint for 49 s" in rows[0]


def test_a_rank_that_stood_still_throughout_has_no_time_of_its_last_step() -> None:
    text = told(flight(0, 0, 100), flight(1, 90, 100))
    assert "before " in next(line for line in text.splitlines() if line.startswith("0 "))


def test_ranks_that_stop_together_are_not_ordered() -> None:
    assert "stopped first" not in told(flight(0, 90, 120), flight(1, 90, 120))


def test_ranks_are_ordered_no_more_closely_than_their_lines_follow_each_other() -> None:
    def sparse(rank: int, offset: int) -> Flight:
        """A rank with a line each half minute, which does a step each second until it is killed after 240 s."""
        found = Flight({"jax.process_index": str(rank)})
        for at in range(offset, 240, 30):
            loops = {"train": {"steps": at, "recorded": {}}}
            found.add({"at": float(at), "loops": loops, "memory": 1e9, "hang": []})
        return found

    assert "stopped first" not in told(sparse(0, 0), sparse(1, 20))


def test_of_ranks_that_stop_together_the_one_with_fewer_steps_is_not_accused() -> None:
    """Its host may wait for each loss, and the others run ahead of their devices."""
    one, other = flight(0, 90, 120), flight(1, 90, 120)
    one.stepped["train"] = 61, 90.4
    assert "\nrank 0 " not in told(one, other)


def test_ranks_that_were_seen_no_longer_than_their_last_step_are_not_ordered_by_it() -> None:
    one, other = flight(0, 120, 120), flight(1, 121, 121)
    other.stepped["train"] = 121, 120.5
    assert "stopped first" not in told(one, other), "what it did after that was lost with it"


def test_of_ranks_that_were_seen_no_longer_than_their_last_step_one_stopped_first_that_was_seen_no_more() -> (
    None
):
    later = flight(1, 129, 128)
    assert "stopped first" not in told(flight(0, 127, 126), later), "its next line may have been lost"
    assert "rank 0 was seen no more (no end was seen), 8 s before" in told(flight(0, 121, 120), later)


def test_two_starts_of_one_rank_without_a_step_are_told() -> None:
    starts = [flight(0, 0, 3), flight(0, 0, 3)]
    for each in starts:
        each.stepped.clear()
    assert "2 ranks" in told(*starts)


def test_of_ranks_that_stop_together_the_one_that_was_killed_is_named() -> None:
    killed = flight(1, 70, 72, ended="killed")
    text = told(flight(0, 70, 300), killed, flight(2, 70, 300))
    assert "rank 1 was over first (killed), 3.8 min before the next" in text
    at_once = told(flight(0, 70, 73), killed, flight(2, 70, 74, ended="crashed"))
    assert "rank 1 was killed, and no other is known to have been" in at_once, "one was seen to the end"
    later = told(flight(0, 70, 71), killed)
    assert "and no other" not in later, "the other was not seen as long"
    others = told(flight(0, 70, 72, ended="killed"), killed)
    assert "and no other" not in others, "all were killed"


def test_the_rank_that_was_over_first_is_named_with_how_it_ended() -> None:
    for how in ("crashed", "ended", "killed"):
        text = told(flight(0, 70, 300), flight(1, 70, 72, ended=how), flight(2, 70, 300, ended="killed"))
        assert f"rank 1 was over first ({how}), 3.8 min before the next" in text
    silent = told(flight(0, 70, 300), flight(1, 70, 72))
    assert "was over" not in silent, "its recorder alone may be"
    assert "rank 1 was seen no more (no end was seen), 3.8 min before the next" in silent


def test_of_ranks_that_all_ended_by_themselves_none_is_named() -> None:
    ended = [flight(rank, last, last + 1, ended="ended") for rank, last in enumerate((90, 90, 150))]
    assert not [line for line in told(*ended).splitlines() if line.startswith("rank ") and "host" not in line]


def test_a_rank_that_no_other_has_left_behind_has_not_stopped_first() -> None:
    """Its clock may be behind the others' by that much."""
    early, others = flight(0, 90, 120), [flight(rank, 90, 300) for rank in (1, 2)]
    early.stepped["train"] = 90, 30.0
    assert "stopped first" not in told(early, *others)
    others[0].stepped["train"] = 91, 90.0
    assert "rank 0 stopped first" in told(early, *others)


def test_a_rank_that_waits_for_its_device_as_others_do_has_not_stopped_first() -> None:
    """Their hosts run ahead, and go on until so many steps are in flight."""
    hang = {"loop": "train", "seconds": 43.0, "line": "train.py:9 f", "activity": "device", "function": None}
    waiting, ahead = flight(0, 90, 140, hang=[hang]), flight(1, 120, 140, hang=[hang])
    assert "stopped first" not in told(waiting, ahead, flight(2, 120, 140, phases={"checkpoint": 20.0}))
    assert "rank 0 stopped first" in told(waiting, flight(1, 140, 140)), "the other did not wait"


def test_steps_that_were_lost_with_an_agent_make_no_rank_the_first() -> None:
    lost = flight(1, 20, 120)
    lost.moments[-1] = {**lost.last, "counts_begin_seconds": 70.0}
    lost.stepped["train"] = 20, 90.0
    text = told(flight(0, 90, 120), lost)
    assert "fewest" not in text
    assert "stopped first" not in text
    assert "at least 20 of train" in text


def test_ranks_that_left_nothing_are_counted() -> None:
    one = flight(1, 90, 120)
    one.who = {**one.who, "jax.process_count": "8"}
    assert "night a1: 2 of 8 ranks, seen until" in told(flight(0, 90, 120), one)


def test_what_many_ranks_have_in_common_is_one_line() -> None:
    hang = {"loop": "train", "seconds": 43.0, "line": "train.py:9 f", "activity": "device", "function": None}
    ranks = [flight(rank, 90, 120, hang=[hang]) for rank in range(8)]
    (line,) = [line for line in told(*ranks).splitlines() if "stands still" in line]
    assert line.endswith("ranks 0, 1, 2, 3, 4 and 3 more: `train` stands still")


@pytest.mark.parametrize("ahead", [-180.0, 180.0])
def test_a_clock_that_differs_from_the_others_accuses_nobody(
    ahead: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for rank in range(3):
        lines = lines_of(90, 120, ahead if rank == 1 else 0.0)
        written(tmp_path / f"rank{rank}", lines, jax__process_index=str(rank))
    assert main(["postmortem", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [rank["differs"] for rank in found] == [None] * 3
    assert [rank["last_step"] for rank in found] == [90.0] * 3
    assert {rank["who"]["jax.process_index"]: rank["clock_ahead"] for rank in found}["1"] == ahead
    assert main(["postmortem", str(tmp_path)]) == 0
    side = "ahead of" if ahead > 0 else "behind"
    assert f"the clock of rank 1 was 3 min {side} the others'" in capsys.readouterr().out


def test_a_host_that_runs_ahead_or_counts_other_steps_has_no_other_clock() -> None:
    usual, ahead = flight(0, 90, 120), flight(1, 90, 120)
    ahead.reached["train"] = [(steps + 30, at) for steps, at in ahead.reached["train"]]
    assert clocks_ahead([usual, ahead]) == [0.0, 0.0]
    late = flight(1, 90, 120)
    late.reached["train"] = [(steps, at + 60.0) for steps, at in late.reached["train"]]
    assert clocks_ahead([usual, late]) == [0.0, 0.0], "it began when the other did"


def test_an_earlier_start_with_the_same_id_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As of two starts by hand with the same coordinator's address: nothing counts them."""
    for day, ranks in enumerate(((0, 1, 2), (0, 1))):
        for rank in ranks:
            lines = lines_of(90, 120, 86_400.0 * (1 + day))
            folder = written(tmp_path / f"{day}-{rank}", lines, jax__process_index=str(rank))
            os.utime(folder / RECORDER, (1 + day, 1 + day))
    assert main(["postmortem", str(tmp_path), "--json"]) == 0
    assert [rank["seen_until"] for rank in json.loads(capsys.readouterr().out)] == [2 * 86_400.0 + 120] * 2


def test_a_rank_of_a_start_with_more_processes_has_not_stopped_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As where a job goes on without the host that failed: its launcher may not count the restart."""
    for at, ranks in enumerate((3, 2)):
        for rank in range(ranks):
            lines = lines_of(90, 120, 200.0 * at)
            who = {"jax__process_index": str(rank), "jax__process_count": str(ranks)}
            os.utime(written(tmp_path / f"{at}-{rank}", lines, **who) / RECORDER, (1 + at, 1 + at))
    assert main(["postmortem", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert ": 2 ranks, seen until" in out
    assert "rank 2" not in out


def test_lines_of_another_version_are_counted_and_do_not_spoil_the_story(tmp_path: Path) -> None:
    lines = lines_of(90, 120)
    odd: list[dict[str, Any]] = [
        {"at": 1.0, "span": "jax.compile"}, {"at": 1.0, "span": "jax.compile", "seconds": 9.0},
        {**lines[0], "hang": [{"loop": "train"}]}, {**lines[0], "compiling": {"f": "long"}},
        {**lines[-1], "loops": {"train": {**lines[0]["loops"]["train"], "steps": "many"}}},
    ]  # fmt: skip
    found = read_flight(written(tmp_path / "run", [*lines, *odd]))
    assert found is not None
    assert found.broken == len(odd)
    assert "5 lines could not be read" in told(found)
    assert clocks_ahead([found, found]) == [0.0, 0.0]


def test_a_recorder_of_an_odd_rank_is_refused_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path / "run", lines_of(9, 9))
    text = (tmp_path / "run" / RECORDER).read_text()
    (tmp_path / "run" / RECORDER).write_text(text.replace('"jaxobs.run_id":"a1"', '"jax.process_index":[]'))
    assert main(["postmortem", str(tmp_path / "run")]) == 2
    assert capsys.readouterr().err.startswith("jaxobs postmortem: a recorder cannot be shown")


def test_stacks_are_told_of_a_hang_that_lasted_until_the_end_and_not_of_an_earlier_one() -> None:
    hang = {"loop": "train", "seconds": 43.0, "line": "train.py:9 f", "activity": "device", "function": None}
    stacks = {
        "at": 95.0,
        "loop": "train",
        "stacks": [{"name": "main", "of_loop": True, "frames": ["train.py:9 f"]}],
    }
    earlier = flight(0, 90, 120)
    earlier.moments[96] = {**earlier.moments[96], "hang": [hang]}
    until_its_end = flight(0, 90, 120, ended="crashed")
    until_its_end.moments[-2] = {**until_its_end.moments[-2], "hang": [hang]}
    for each, is_told in ((earlier, False), (until_its_end, True)):
        each.stacks = stacks
        assert ("threads of rank 0" in told(each)) is is_told
        assert ("no step for 43 s: train.py:9 f" in told(each)) is is_told


def test_of_ranks_that_stop_together_the_one_is_named_that_waits_for_no_device() -> None:
    def hang(activity: str) -> list[dict[str, Any]]:
        known = {"loop": "train", "seconds": 43.0, "longest_pause_seconds": 1.0, "over": False}
        return [{**known, "line": "train.py:9 f", "activity": activity, "function": None}]

    def hang_at(line: str) -> list[dict[str, Any]]:
        return [{**hang("device")[0], "line": line}]

    waits = [flight(rank, 90, 120, hang=hang("device")) for rank in (0, 2)]
    text = told(*waits, flight(1, 90, 120, hang=hang("waiting")))
    assert "rank 1 stood still: it does not wait for its device" in text
    assert "stood still:" not in told(*waits)
    text = told(*waits, flight(1, 90, 120, hang=hang_at("train.py:4 step")))
    assert "rank 1 stood still: its thread is at another line than all others" in text


def test_memory_that_grew_is_told() -> None:
    assert "memory of the process grew from" in told(flight(0, 90, 100, memory=2e9))
    at_first = flight(0, 90, 100)
    at_first.moments[0] = {**at_first.moments[0], "memory": 5e8}
    assert "memory of the process grew from" not in told(at_first), "it had done no step"


def test_of_a_full_directory_only_the_run_that_was_written_last_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ranks = [(f"run{number}", rank) for number in range(3) for rank in range(2)]
    for at, (run, rank) in enumerate(ranks):
        who = {"jaxobs.run_id": run, "jax.process_index": str(rank)}
        moments = [{"at": float(number), "loops": {}} for number in range(100)]
        path = tmp_path / f"{run}-{rank}" / RECORDER
        path.parent.mkdir()
        first = {"at": 0.0, "who": {**who, "jaxobs.run_id": "not known yet"}}
        lines = [first, moments[0], {"at": 0.0, "who": who}, *moments]
        path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
        os.utime(path, (at, 50 if run == "run1" and rank else at))
    added: list[Moment] = []
    add = Flight.add
    monkeypatch.setattr(Flight, "add", lambda flight, line: (added.append(line), add(flight, line)))
    assert main(["postmortem", str(tmp_path), "--json"]) == 0
    found = [rank["who"] for rank in json.loads(capsys.readouterr().out)]
    assert found == [{"jaxobs.run_id": "run1", "jax.process_index": str(rank)} for rank in range(2)]
    assert len(added) < 250


def test_a_folder_of_another_run_than_the_newest_is_said_to_be_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = (written(tmp_path / run, lines_of(90, 120), jaxobs__run_id=run) for run in ("old", "new"))
    os.utime(old / RECORDER, (1, 1))
    assert main(["postmortem", str(old), str(new)]) == 0
    said = capsys.readouterr()
    assert said.err.startswith(f"jaxobs postmortem: {old} is left out")
    assert len(said.err.splitlines()) == 1
    assert "new: 1 rank" in said.out


def test_reports_that_memory_ran_out_are_named_when_they_were_written(tmp_path: Path) -> None:
    folder = written(tmp_path / "run", lines_of(90, 120))
    report = folder / "out-of-memory-19700101T000130-abc"
    report.mkdir()
    (folder / "out-of-memory-notes").mkdir()
    found = read_flight(folder)
    assert found is not None
    assert found.known == [(90.0, f"memory ran out: {report} tells what held it")]
    assert f"memory ran out: {report}" in told(found)
