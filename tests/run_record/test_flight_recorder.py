"""What the flight recorder keeps of a run, and the story that `jaxobs postmortem` tells of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxobs.cli import main
from jaxobs.model.clock import NANOSECONDS, now
from jaxobs.model.events import Span
from jaxobs.model.snapshot import SnapshotData
from jaxobs.plugin.protocol import Batch
from jaxobs.report.postmortem import (
    BEFORE,
    RECORDER,
    as_data,
    read_flight,
)
from jaxobs.report.record import encoded
from jaxobs.report.runs import RECORD
from jaxobs.testing import FakeAgent
from jaxobs_plugins.flight_recorder import FlightRecorder
from tests.cli.launched import command
from tests.jobs import Job
from tests.report.made_up import content
from tests.report.test_postmortem import told
from tests.report.test_sentence import SLOWDOWN
from tests.run_record.test_run_record import given
from tests.sample_document import document, loop
from tests.waiting import wait_for

if TYPE_CHECKING:
    import pytest

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
