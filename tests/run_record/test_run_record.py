from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jaxobs.model.clock import now
from jaxobs.model.snapshot import SnapshotData
from jaxobs.plugin.protocol import Batch
from jaxobs.report import runs
from jaxobs.report.record import Record, decoded
from jaxobs.testing import FakeAgent
from jaxobs_plugins import run_record
from jaxobs_plugins.run_record import RunRecordExporter, relevant_environment
from tests.jobs import Job, Outcome
from tests.report.made_up import content
from tests.waiting import wait_for

TRAIN = """
import jax, jax.numpy as jnp
step = obs.watch(jax.jit(lambda x: jnp.tanh(x @ x)))
x, begin, told = jnp.ones((64, 64)), time.perf_counter(), False
for _ in obs.steps(range(10**9), examples=4):
    x = step(x).block_until_ready()
    age = time.perf_counter() - begin
    if age > 2 and not told:
        told = True
        print("trained for two seconds", flush=True)
    if age > {seconds}:
        break
"""


def batch() -> Batch:
    return Batch(SnapshotData(now(), content()["snapshot"]), (), ())


STARTS = 1_780_000_000.0
RESOURCE = {"jaxobs.run": "train", "jax.process_index": "0", "service.instance.id": "abcd-efgh-ijkl"}


def given(directory: Path, **resource: str) -> dict[str, Any]:
    """The settings of a run in a directory that was given."""
    settings = {"run_directory": str(directory), "keep_runs": True, "run_interval": 1e-9}
    return settings | {
        "run_folder": str(runs.folder_of(settings, RESOURCE | resource, STARTS, is_first=True))
    }


def exporter(directory: Path) -> tuple[RunRecordExporter, FakeAgent]:
    agent = FakeAgent(given(directory))
    made = RunRecordExporter()
    made.start(agent)
    return made, agent


def only_record(directory: Path) -> Path:
    (folder,) = directory.iterdir()
    (path,) = (path for path in folder.iterdir() if path.name != "page.html")
    assert path.name == "record.json"
    return path


def test_a_record_is_written_again_in_its_place_and_once_more_at_the_end(tmp_path: Path) -> None:
    made, agent = exporter(tmp_path / "runs")
    made.export(batch())
    path = only_record(tmp_path / "runs")
    assert path.parent.name == "train-rank0-20260528T202640Z-abcdefgh"
    assert json.loads(path.read_bytes())["state"] == "running"
    made.export(batch())
    made.stop(1.0)
    assert only_record(tmp_path / "runs") == path
    assert decoded(path.read_bytes(), "a").content["state"] == "ended"
    assert agent.lines == []
    assert "<h1>" in path.with_name("page.html").read_text()


def test_nothing_is_written_without_a_directory_nor_before_anything_ran(tmp_path: Path) -> None:
    made, agent = exporter(tmp_path)
    document = {"process": {"platform": None}, "loops": {}}
    made.export(Batch(SnapshotData(now(), document), (), ()))
    made.stop(1.0)
    silent = RunRecordExporter()
    silent.start(FakeAgent({"run_directory": None, "run_folder": None}))
    assert not silent.takes_batches
    silent.stop(1.0)
    assert list(tmp_path.iterdir()) == []
    assert agent.lines == []


def test_a_directory_that_cannot_be_written_to_is_said_once_at_the_start_and_tried_again(
    tmp_path: Path,
) -> None:
    made, agent = exporter(tmp_path / "mistyped" / "runs")
    (said,) = agent.lines
    for _ in range(3):
        made.export(batch())
    assert agent.lines == [said]
    assert "No such file or directory" in said
    assert "JAXOBS_RUN_DIRECTORY" in said
    (tmp_path / "mistyped").mkdir()
    made.stop(1.0)
    assert decoded(only_record(tmp_path / "mistyped" / "runs").read_bytes(), "a").content["state"] == "ended"


def in_state_of_user(
    monkeypatch: pytest.MonkeyPatch, state: Path, *, rank: int = 0, is_first: bool = True
) -> FakeAgent:
    """The agent of one run that left its record, as far as it did, in the user's state directory."""
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    settings = {"run_directory": None, "keep_runs": True, "run_interval": 1e-9}
    folder = runs.folder_of(settings, RESOURCE, STARTS, is_first=is_first)
    agent = FakeAgent(settings | {"run_folder": folder and str(folder)})
    made = RunRecordExporter()
    made.start(agent)
    if made.takes_batches:
        made.export(Batch(SnapshotData(now(), content(rank=rank)["snapshot"]), (), ()))
    made.stop(1.0)
    return agent


def test_where_no_directory_is_given_the_first_rank_keeps_its_run_for_the_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert in_state_of_user(monkeypatch, tmp_path, is_first=False).lines == []
    in_state_of_user(monkeypatch, tmp_path, rank=1)  # as JAX alone knows
    assert list(tmp_path.iterdir()) == []
    in_state_of_user(monkeypatch, tmp_path)
    directory = tmp_path / "jaxobs" / "runs"
    folder = only_record(directory).parent
    assert [stat.S_IMODE(path.stat().st_mode) for path in (directory, folder)] == [0o700, 0o700]
    assert folder.name.startswith("train-rank0-")


def run_of(directory: Path, day: int, written: float, **beside: int) -> str:
    """A folder that a run left, with files of so many bytes beside its record."""
    folder = directory / f"train-rank0-202601{day:02}T000000Z-abc"
    folder.mkdir()
    for name, size in {"record.json": 2, **beside}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(size * b" ")
    os.utime(folder / "record.json", (written, written))
    return folder.name


def test_of_the_users_runs_those_written_last_are_kept_and_what_is_not_ours_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_record, "MAX_RUNS", 3)
    directory = tmp_path / "jaxobs" / "runs"
    directory.mkdir(parents=True)
    names = [run_of(directory, 1 + number, number) for number in range(5)]
    (directory / "mine").mkdir()
    (directory / "mine.json").write_text("not of a run")
    (tmp_path / "elsewhere").mkdir()
    link = directory / names[0].replace("abc", "link")
    link.symlink_to(tmp_path / "elsewhere")
    in_state_of_user(monkeypatch, tmp_path)
    left = {path.name for path in directory.iterdir()}
    assert {*names[3:], "mine", "mine.json", link.name} < left
    assert len(left) == 6  # and the new one


def test_above_the_bytes_allowed_the_oldest_runs_keep_their_records_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_record, "MAX_BYTES", 3_000_000)
    directory = tmp_path / "jaxobs" / "runs"
    directory.mkdir(parents=True)
    for day in (1, 2, 3, 4):
        run_of(directory, day, day, **{"plugins/profile/trace": 1_000_000, "killed.txt": 1_000})
    in_state_of_user(monkeypatch, tmp_path)
    held = {
        folder.name[18:20]: {path.name for path in folder.iterdir()} for folder in directory.glob("*-abc")
    }
    assert held["04"] == held["03"] == {"record.json", "plugins", "killed.txt"}
    assert held["02"] == held["01"] == {"record.json"}


def test_room_is_made_of_what_jaxobs_wrote_in_runs_that_are_over_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_record, "MAX_BYTES", 1_000_000)
    monkeypatch.setattr(run_record, "MAX_RUNS", 3)
    directory = tmp_path / "jaxobs" / "runs"
    directory.mkdir(parents=True)
    ours = {
        "recorder.jsonl": 1,
        "recorder.before": 1,
        "out-of-memory-1/report": 1,
        "plugins/profile/a/b": 1_000,
    }
    draft = {f".record.json.{16 * '0'}.draft": 1}
    theirs = {"notes.txt": 1, "profile/mine": 1, "plugins/mine": 1}
    for day in (1, 2, 3, 4, 5, 6):
        beside = ours | draft | (theirs if day in {1, 4} else {})
        folder = directory / run_of(directory, day, day, **beside, **{"page.html": 600_000})
        # That of day 2 runs: its recorder is written each second, and its record each day.
        written = time.time() if day == 2 else float(day)
        os.utime(folder / "recorder.jsonl", (written, written))
    in_state_of_user(monkeypatch, tmp_path)
    held = {
        folder.name[18:20]: {
            path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
        }
        for folder in directory.glob("*-abc")
    }
    whole = {"record.json", "page.html", *ours, *draft}
    assert held == {
        "06": whole, "05": {"record.json"}, "04": {"record.json", *theirs}, "02": whole,
        "01": {"record.json", *theirs},
    }  # fmt: skip


def test_runs_are_in_the_order_in_which_they_began(tmp_path: Path) -> None:
    long, short = run_of(tmp_path, 1, 3e9), run_of(tmp_path, 2, 2e9)
    (tmp_path / f"{short}-without").mkdir()
    renamed = tmp_path / "before"
    (tmp_path / run_of(tmp_path, 3, 1e9)).rename(renamed)
    assert [path.name for path in runs.kept(tmp_path)] == [short, long, "before"]


def test_a_record_written_in_a_year_that_cannot_be_told_does_not_hide_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(tmp_path, 1, 1e9)
    (tmp_path / run_of(tmp_path, 2, 1e9)).rename(tmp_path / "odd")
    for error in (OverflowError, ValueError):  # few file systems have times that far off

        def refused(written: float, error: type[Exception] = error) -> None:
            raise error(written)

        with monkeypatch.context() as patched:
            patched.setattr(time, "gmtime", refused)
            assert [path.name for path in runs.kept(tmp_path)] == [run]


def test_a_run_of_any_name_is_kept_in_its_directory(tmp_path: Path) -> None:
    folder = Path(
        given(tmp_path, **{"jaxobs.run": "../é" + 400 * "x", "service.instance.id": "a/b-c"})["run_folder"]
    )
    assert folder.parent == tmp_path
    assert folder.name.startswith("..-xxxx")
    assert runs.FOLDER_NAME.fullmatch(folder.name)
    bare = runs.folder_of({"run_directory": tmp_path}, {"service.instance.id": "ab"}, STARTS, is_first=False)
    assert bare == tmp_path / "20260528T202640Z-ab"
    assert runs.FOLDER_NAME.fullmatch(bare.name)


def test_a_state_directory_that_cannot_be_written_to_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jaxobs").write_text("a file")
    (said,) = in_state_of_user(monkeypatch, tmp_path).lines
    assert "no record of the run can be written" in said
    assert "JAXOBS_KEEP_RUNS=0" in said


def test_where_no_home_is_known_that_is_said_unless_nothing_is_to_be_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unknown(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(Path, "expanduser", unknown)
    for keeps, lines in ((True, 1), (False, 0)):
        agent = FakeAgent({"run_directory": None, "keep_runs": keeps, "run_folder": None})
        RunRecordExporter().start(agent)
        assert ["no home directory is known" in line for line in agent.lines] == lines * [True]


def test_the_users_state_directory_is_that_of_xdg_and_never_the_working_directory() -> None:
    keeps = {"run_directory": None, "keep_runs": True}
    assert runs.directory_of(keeps, {"XDG_STATE_HOME": "/state"}) == Path("/state/jaxobs/runs")
    at_home = Path("~/.local/state/jaxobs/runs").expanduser()
    assert runs.directory_of(keeps, {"XDG_STATE_HOME": "state"}) == runs.directory_of(keeps, {}) == at_home
    assert runs.directory_of(keeps | {"run_directory": "/given"}, {}) == Path("/given")
    for given in (None, "/given"):
        assert runs.directory_of({"run_directory": given, "keep_runs": False}, {}) is None


def test_a_full_disk_leaves_the_record_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, agent = exporter(tmp_path)
    made.export(batch())
    before = only_record(tmp_path).read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    made.export(batch())
    made.stop(1.0)
    assert only_record(tmp_path).read_bytes() == before
    assert ["No space left" in line for line in agent.lines] == [True]


def test_a_planted_link_is_replaced_and_not_written_through(tmp_path: Path) -> None:
    directory, victim = tmp_path / "runs", tmp_path / "victim"
    victim.write_text("precious")
    made, _ = exporter(directory)
    made.export(batch())
    path = only_record(directory)
    path.unlink()
    path.symlink_to(victim)
    made.stop(1.0)
    assert victim.read_text() == "precious"
    assert stat.S_ISREG(path.lstat().st_mode)


def test_the_environment_has_what_bears_on_speed_and_no_secret() -> None:
    environment = {
        "XLA_FLAGS": "--xla_a", "JAX_ENABLE_X64": "1", "OMP_NUM_THREADS": "2", "HOME": "/root", "WANDB_API_KEY": "k",
        "JAX_COORDINATOR_ADDRESS": "node:1", "JAX_SECRET": "s", "TPU_WORKER_HOSTNAMES": "a,b", "NCCL_COMM_ID": "x",
    }  # fmt: skip
    assert set(relevant_environment(environment)) == {"XLA_FLAGS", "JAX_ENABLE_X64", "OMP_NUM_THREADS"}


def final_record(directory: Path) -> Record:
    """The record that the agent leaves, some time after the job is gone."""

    def ended() -> Record | None:
        records = (decoded(path.read_bytes(), path.name) for path in directory.glob("*/record.json"))
        return next((record for record in records if record.content["state"] != "running"), None)

    record = wait_for(ended, f"a record of the end in {directory}")
    assert record is not None
    return record


ENDS = {
    "ended": "",
    "crashed": "raise ValueError('no more data')",
    "interrupted": "raise KeyboardInterrupt",
    "killed": "os._exit(0)",
}


@pytest.mark.long
@pytest.mark.parametrize("state", ENDS)
def test_a_job_leaves_a_record_of_how_it_ended(
    run: Callable[..., Outcome], tmp_path: Path, state: str
) -> None:
    # Of a killed job the newest snapshot may be a second old, and the shortest stretch that is kept takes another.
    seconds = 6 if state == "killed" else 3
    run(TRAIN.format(seconds=seconds) + ENDS[state], JAXOBS_RUN_DIRECTORY=str(tmp_path))
    record = final_record(tmp_path)
    assert record.content["state"] == state
    assert record.snapshot["loops"]["train"]["steps"] > 0
    assert record.content["windows"]["train"]["steps"]
    assert {"python", "jax", "jaxlib", "jaxobs"} <= set(record.content["versions"])


BLOCK = """
jaxobs.instrument().shutdown()
try:
    with jaxobs.instrument() as obs:
        for _ in obs.steps(range(5)): pass
        {end}
except BaseException: pass
"""


@pytest.mark.parametrize(("end", "state"), [("raise OSError", "crashed"), ("sys.exit(3)", "ended")])
def test_a_block_that_an_exception_leaves_has_crashed(
    run: Callable[..., Outcome], tmp_path: Path, end: str, state: str
) -> None:
    outcome = run(BLOCK.format(end=end), JAXOBS_RUN_DIRECTORY=str(tmp_path))
    assert outcome.status == 0, outcome.stderr
    assert final_record(tmp_path).content["state"] == state


def test_a_job_that_is_killed_leaves_one_too(start: Callable[..., Job], tmp_path: Path) -> None:
    job = start(TRAIN.format(seconds=600), JAXOBS_RUN_DIRECTORY=str(tmp_path))
    job.wait_for("trained for two seconds")
    first = wait_for(lambda: next(tmp_path.glob("*/record.json"), None), "a record from the start on")
    assert first is not None
    assert json.loads(first.read_bytes())["state"] == "running"
    job.process.kill()
    job.end()
    record = final_record(tmp_path)
    assert record.content["state"] == "killed"
    assert record.snapshot["loops"]["train"]["steps"] > 0
    folder = next(tmp_path.iterdir())
    for last in ("killed.txt", "page.html"):
        assert wait_for((folder / last).exists, last)
    assert {path.name for path in folder.iterdir()} == {
        "record.json", "recorder.jsonl", "killed.txt", "page.html",
    }  # fmt: skip


def test_a_process_that_never_uses_jax_leaves_nothing(run: Callable[..., Outcome], tmp_path: Path) -> None:
    outcome = run("import jax\nobs.snapshot(60)", JAXOBS_RUN_DIRECTORY=str(tmp_path / "runs"))
    assert (outcome.status, outcome.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []
