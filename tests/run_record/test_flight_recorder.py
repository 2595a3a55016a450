"""What the flight recorder keeps of a run, and the story that `jaxobs postmortem` tells of it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from jaxobs.cli import main
from jaxobs.model.clock import NANOSECONDS, now
from jaxobs.model.events import Span
from jaxobs.model.snapshot import SnapshotData
from jaxobs.plugin.protocol import Batch
from jaxobs.report.postmortem import (
    BEFORE,
    RECORDER,
    Flight,
    Moment,
    as_data,
    clocks_ahead,
    read_flight,
    story,
)
from jaxobs.report.record import encoded
from jaxobs.report.runs import RECORD
from jaxobs.report.text_table import to_text
from jaxobs.testing import FakeAgent
from jaxobs_plugins.flight_recorder import FlightRecorder
from tests.cli.launched import command
from tests.jobs import Job
from tests.report.made_up import content
from tests.report.test_sentence import SLOWDOWN
from tests.run_record.test_run_record import given
from tests.sample_document import document, loop
from tests.waiting import wait_for

TRAIN = """
import jax, jax.numpy as jnp
step = obs.watch(jax.jit(lambda x: jnp.tanh(x @ x)))
x = jnp.ones((64, 64))
for number in obs.steps(range(10**9)):
    x = step(x).block_until_ready()
    obs.record(number=number)
    time.sleep(0.01)
    if number == 50:
        print("under way", flush=True)
"""


def recorder(directory: Path, max_bytes: int = 10**6) -> tuple[FlightRecorder, Path]:
    settings = given(directory)
    made = FlightRecorder(max_bytes)
    made.start(FakeAgent(settings))
    return made, Path(settings["run_folder"])


TICKS = count()
"""Snapshots come a second apart."""


def batch(*spans: Span, **process: Any) -> Batch:
    known = document(loops={"train": loop(100, compute=1.6)})
    return Batch(
        SnapshotData(
            now() + next(TICKS) * NANOSECONDS, {**known, "process": {**known["process"], **process}}
        ),
        (),
        spans,
    )


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


def test_each_second_is_a_line_and_long_phases_are_lines_of_their_own(tmp_path: Path) -> None:
    made, folder = recorder(tmp_path)
    end = now()
    made.export(batch(compiling={"f": 3.0}))
    phase = Span("jax.phase", 1, 2, None, end - 2 * NANOSECONDS, end, (("jax.phase", "checkpoint"),))
    made.export(batch(phase, replace(phase, start=end)))
    made.stop(1)
    lines = [json.loads(line) for line in (folder / RECORDER).read_text().splitlines()]
    assert "who" in lines[0]
    assert [line.get("span") for line in lines[2:]] == ["jax.phase", None]
    found = read_flight(folder)
    assert found is not None
    assert found.moments[0]["compiling"] == {"f": 3.0}
    assert found.ended == "no end was seen"


def test_a_slowdown_is_a_line_of_its_own_twice_and_is_told_however_long_ago_it_was(tmp_path: Path) -> None:
    made, folder = recorder(tmp_path)
    for over in (False, False, True):
        one = batch()
        slow = {**SLOWDOWN, "over": over}
        made.export(
            replace(
                one, snapshot=replace(one.snapshot, written={**one.snapshot.document, "slowdowns": [slow]})
            )
        )
    made.stop(1)
    lines = [json.loads(line) for line in (folder / RECORDER).read_text().splitlines()]
    assert [line["slowdown"]["over"] for line in lines if "slowdown" in line] == [False, True]
    with (folder / RECORDER).open("a") as file:
        file.write('{"at": 17.0, "slowdown": {"loop": "train"}}\n')
    found = read_flight(folder)
    assert found is not None
    assert found.broken == 1
    found.moments[:0] = [{**found.moments[0], "at": found.moments[0]["at"] - 600}]
    assert "`train` takes 130 ms a step instead of 100 ms (+30 %) since" in told(found)


def test_a_slowdown_is_kept_once_though_the_wall_clock_is_set(tmp_path: Path) -> None:
    made, folder = recorder(tmp_path)
    for began in (1e9, 1e9 + 7200):  # a machine was suspended, and the moment is two hours later
        slow = {**SLOWDOWN, "over": False, "began_timestamp_seconds": began}
        one = batch()
        written = {**one.snapshot.document, "slowdowns": [slow]}
        made.export(replace(one, snapshot=replace(one.snapshot, written=written)))
    made.stop(1)
    assert (folder / RECORDER).read_text().count('"slowdown":') == 1


def test_a_slowdown_that_could_not_be_written_is_written_later(tmp_path: Path) -> None:
    made, folder = recorder(tmp_path)
    one = batch()
    slow = replace(
        one.snapshot, written={**one.snapshot.document, "slowdowns": [{**SLOWDOWN, "over": False}]}
    )
    folder.touch()  # in the place of the folder
    made.export(replace(one, snapshot=slow))
    folder.unlink()
    for _ in range(2):
        made.export(replace(one, snapshot=slow))
    made.stop(1)
    assert (folder / RECORDER).read_text().count('"slowdown":') == 1


def test_slowdowns_that_are_shown_no_more_are_forgotten(tmp_path: Path) -> None:
    made, folder = recorder(tmp_path)
    one = batch()
    for number in range(100):
        slow = {**SLOWDOWN, "over": True, "began_seconds": float(number)}
        written = {**one.snapshot.document, "slowdowns": [slow]}
        made.export(replace(one, snapshot=replace(one.snapshot, written=written)))
    made.stop(1)
    assert (folder / RECORDER).read_text().count('"slowdown":') == 100
    assert len(made._slowdowns) == 1


def test_two_files_of_bounded_size_are_kept(tmp_path: Path) -> None:
    made, folder = recorder(tmp_path, max_bytes=2_000)
    for number in range(40):
        made.export(batch(compiling={f"f{number}": 1.0}))
    made.stop(1)
    assert {path.name for path in folder.iterdir()} == {RECORDER, BEFORE}
    assert all(path.stat().st_size < 4_000 for path in folder.iterdir())
    found = read_flight(folder)
    assert found is not None
    assert found.last["compiling"] == {"f39": 1.0}


def test_a_script_that_asks_for_snapshots_all_the_time_does_not_fill_the_file(tmp_path: Path) -> None:
    made, folder = recorder(tmp_path)
    first, last = batch().snapshot, batch(ended="ended").snapshot
    for hundredths in range(200):
        made.export(Batch(replace(first, time=first.time + hundredths * 10**7), (), ()))
    made.export(Batch(replace(last, time=first.time + 2 * NANOSECONDS - 1), (), ()))
    made.stop(1)
    found = read_flight(folder)
    assert found is not None
    assert len(found.moments) == 5
    assert found.ended == "ended"


def test_a_line_that_was_cut_is_left_out_and_nothing_is_no_flight(tmp_path: Path) -> None:
    made, folder = recorder(tmp_path)
    made.export(batch())
    made.stop(1)
    with (folder / RECORDER).open("a") as file:
        file.write('{"at": 17')
    found = read_flight(folder)
    assert found is not None
    assert len(found.moments) == 1
    assert read_flight(tmp_path / "none") is None


def test_nothing_is_kept_of_a_process_in_which_nothing_of_jax_ran(tmp_path: Path) -> None:
    made, folder = recorder(tmp_path)
    made.export(Batch(SnapshotData(now(), {**document(), "process": {}, "loops": {}}), (), ()))
    made.stop(1)
    assert not folder.exists()


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


def test_lines_that_are_no_recorders_are_counted_and_the_rest_is_told(tmp_path: Path) -> None:
    made, folder = recorder(tmp_path)
    made.export(batch())
    made.stop(1)
    with (folder / RECORDER).open("ab") as file:
        file.write(b'\0\0\n{"loops": {}}\n{"at": 1, "loops": []}\n[]\n')
    found = read_flight(folder)
    assert found is not None
    assert (len(found.moments), found.broken) == (1, 4)
    assert "4 lines could not be read" in told(found)


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
    assert "rank 1 was killed, and no other" in at_once
    later = told(flight(0, 70, 71), killed)
    assert "and no other" not in later, "the other was not seen as long"
    others = told(flight(0, 70, 72, ended="killed"), killed)
    assert "and no other" not in others, "all were killed"


def test_the_rank_that_was_over_first_is_named_with_how_it_ended() -> None:
    for how in ("crashed", "ended", "killed"):
        text = told(flight(0, 70, 300), flight(1, 70, 72, ended=how), flight(2, 70, 300, ended="killed"))
        assert f"rank 1 was over first ({how}), 3.8 min before the next" in text
    assert "was over" not in told(flight(0, 70, 300), flight(1, 70, 72)), "its recorder alone may be"


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


def test_lines_of_another_version_are_counted_and_do_not_spoil_the_story(tmp_path: Path) -> None:
    lines = lines_of(90, 120)
    odd: list[dict[str, Any]] = [
        {"at": 1.0, "span": "jax.compile"}, {"at": 1.0, "span": "jax.compile", "seconds": 9.0},
        {**lines[0], "hang": [{"loop": "train"}]}, {**lines[0], "compiling": {"f": "long"}},
    ]  # fmt: skip
    found = read_flight(written(tmp_path / "run", [*lines, *odd]))
    assert found is not None
    assert found.broken == len(odd)
    assert "4 lines could not be read" in told(found)


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


def test_the_stacks_of_a_loop_that_stands_still_are_kept_once_for_each_place(tmp_path: Path) -> None:
    made, folder = recorder(tmp_path)
    for line in ("train.py:9 f", "train.py:9 f", "train.py:4 step"):
        stacks = [
            {"name": "MainThread", "of_loop": True, "frames": [line, "train.py:1 main"]},
            {"name": "reader", "of_loop": False, "frames": ["data.py:7 read"]},
        ]
        hang = {
            "loop": "train", "steps": 7, "began_seconds": 3.0, "seconds": 43.0, "over": False, "line": line,
            "longest_pause_seconds": 1.0, "activity": "device", "function": None, "threads": stacks,
        }  # fmt: skip
        one = batch()
        made.export(
            replace(one, snapshot=replace(one.snapshot, written={**one.snapshot.document, "hangs": [hang]}))
        )
    made.stop(1)
    lines = [json.loads(line) for line in (folder / RECORDER).read_text().splitlines()]
    assert [line["stacks"][0]["frames"][0] for line in lines if "stacks" in line] == [
        "train.py:9 f",
        "train.py:4 step",
    ]
    with (folder / RECORDER).open("a") as file:
        file.write('{"at": 17.0, "loop": "train", "stacks": [{"name": "MainThread", "of_loop": true}]}\n')
    found = read_flight(folder)
    assert found is not None
    assert found.broken == 1
    text = told(found)
    assert "  MainThread (runs train): train.py:4 step ← train.py:1 main\n  reader: data.py:7 read" in text
    (rank,) = as_data([found])
    assert rank["stacks"][1]["frames"] == ["data.py:7 read"]


def test_a_recorder_is_read_by_its_own_name_too_and_by_that_of_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made, folder = recorder(tmp_path)
    made.export(batch())
    made.stop(1)
    (folder / RECORD).write_bytes(encoded(content()))
    monkeypatch.setenv("JAXOBS_RUN_DIRECTORY", str(folder.parent))
    shown = []
    for word in (str(folder), str(folder / RECORDER), "last", folder.name[:4]):
        assert main(["postmortem", word]) == 0
        shown.append(capsys.readouterr().out)
    assert len(set(shown)) == 1
    assert main(["postmortem", "none"]) == 2
    assert "'none' is no file, and no kept run's name begins so" in capsys.readouterr().err


def test_the_story_is_a_page_too_which_does_not_take_the_place_of_a_recorder(tmp_path: Path) -> None:
    made, folder = recorder(tmp_path)
    made.export(batch(phases={"<b>odd": 49.0}))
    made.stop(1)
    done = command("postmortem", str(folder), "--html", "story.html", folder=tmp_path)
    assert done.status == 0
    page = (tmp_path / "story.html").read_text()
    assert ("&lt;b&gt;odd" in page, "<b>odd" in page, page.count("<table")) == (True, False, 1)
    (folder / BEFORE).write_text("")
    for name in (RECORDER, BEFORE):
        over = command("postmortem", str(folder), "--html", str(folder / name), folder=tmp_path)
        assert (over.status, over.stderr.count("\n")) == (2, 1)


def test_memory_that_grew_is_told() -> None:
    assert "memory of the process grew from" in told(flight(0, 90, 100, memory=2e9))


def test_a_value_that_is_not_finite_is_told_once_with_when_it_began(tmp_path: Path) -> None:
    made, folder = recorder(tmp_path)
    absent = "the last value is not finite, or beyond 1e+300 (so far {} of those read)"
    for steps in range(60):
        odd = {} if steps < 10 else {"loss": None, "loss_reason": absent.format(steps)}
        many = {f"{number}": 1.0 for number in range(3)}
        known = batch().snapshot
        trained = {**known["loops"]["train"], "steps": steps, "recorded": {"loss": 1.0, **odd, **many}}
        made.export(Batch(replace(known, written={**known.document, "loops": {"train": trained}}), (), ()))
    made.stop(1)
    found = read_flight(folder)
    assert found is not None
    assert found.last["loops"]["train"]["recorded"] == {"loss": None, "0": 1.0, "1": 1.0, "2": 1.0}
    found.moments[:0] = [{**found.moments[0], "at": found.moments[0]["at"] - 600}]
    (line,) = [line for line in told(found).splitlines() if "loss" in line]
    assert line.endswith("rank –: `loss` of `train` is not finite, first seen after 10 steps")


def test_each_leap_of_a_value_is_told_once(tmp_path: Path) -> None:
    made, folder = recorder(tmp_path)
    for steps in range(30):
        leap = None if steps < 10 else f"leapt from about 2 to 9 after {10 if steps < 20 else 20} steps"
        known = batch().snapshot
        trained = {**known["loops"]["train"], "steps": steps, "recorded": {"loss": 1.0, "loss_reason": leap}}
        made.export(Batch(replace(known, written={**known.document, "loops": {"train": trained}}), (), ()))
    made.stop(1)
    found = read_flight(folder)
    assert found is not None
    found.moments[:0] = [{**found.moments[0], "at": found.moments[0]["at"] - 600}]
    said = [line.partition("rank –: ")[2] for line in told(found).splitlines() if "leapt" in line]
    assert said == [f"`loss` of `train` leapt from about 2 to 9 after {steps} steps" for steps in (10, 20)]


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


def test_of_a_job_that_is_killed_with_its_agent_the_last_step_is_told(
    start: Callable[..., Job], tmp_path: Path
) -> None:
    job = start(TRAIN, JAXOBS_RUN_DIRECTORY=str(tmp_path))
    job.wait_for("under way")
    wait_for(
        lambda: any(re.search(r'"steps":[1-9]', path.read_text()) for path in tmp_path.glob(f"*/{RECORDER}")),
        "a line with a step",
        60,
    )
    for agent in job.agents():
        agent.kill()
    job.process.kill()
    job.end()
    done = command("postmortem", str(tmp_path), folder=tmp_path)
    assert done.status == 0
    assert " of train " in done.stdout
    assert "no end was seen" in done.stdout
    (found,) = json.loads(command("postmortem", str(tmp_path), "--json", folder=tmp_path).stdout)
    assert found["loop"] == "train"
    assert found["steps"] > 0


def test_a_directory_without_a_recorder_is_said_in_one_line(tmp_path: Path) -> None:
    done = command("postmortem", str(tmp_path), folder=tmp_path)
    assert done.status == 2
    assert done.stderr.count("\n") == 1
    assert RECORDER in done.stderr
