from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from jaxobs.model.clock import now
from jaxobs.model.metrics import Family, Kind, Metric
from jaxobs.model.snapshot import SnapshotData
from jaxobs.plugin.protocol import Batch
from jaxobs.report import runs
from jaxobs.report.record import Record, decoded
from jaxobs.testing import FakeAgent
from jaxobs_plugins import run_record
from jaxobs_plugins.run_record import BUSY, CPUS, JOB, HostLoad, RunRecordExporter, relevant_environment
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


def exporter(directory: Path, interval: float = 1e-9) -> tuple[RunRecordExporter, FakeAgent]:
    agent = FakeAgent({"run_directory": str(directory), "run_interval": interval})
    made = RunRecordExporter()
    made.start(agent)
    return made, agent


def only_file(directory: Path) -> Path:
    (path,) = directory.iterdir()
    return path


def test_a_record_is_written_again_in_its_place_and_once_more_at_the_end(tmp_path: Path) -> None:
    made, agent = exporter(tmp_path / "runs")
    made.export(batch())
    path = only_file(tmp_path / "runs")
    assert path.name.startswith("train-rank0-")
    assert json.loads(path.read_bytes())["state"] == "running"
    made.export(batch())
    made.stop(1.0)
    assert only_file(tmp_path / "runs") == path
    assert decoded(path.read_bytes(), "a").content["state"] == "ended"
    assert agent.lines == []


def test_nothing_is_written_without_a_directory_nor_before_anything_ran(tmp_path: Path) -> None:
    made, agent = exporter(tmp_path)
    document = {"process": {"platform": None}, "loops": {}}
    made.export(Batch(SnapshotData(now(), document), (), ()))
    made.stop(1.0)
    silent = RunRecordExporter()
    silent.start(FakeAgent({"run_directory": None}))
    silent.export(batch())
    silent.stop(1.0)
    assert list(tmp_path.iterdir()) == []
    assert agent.lines == []


def test_a_directory_that_cannot_be_written_to_is_said_once_and_tried_again(tmp_path: Path) -> None:
    made, agent = exporter(tmp_path / "mistyped" / "runs")
    for _ in range(3):
        made.export(batch())
    (said,) = agent.lines
    assert "No such file or directory" in said
    assert "JAXOBS_RUN_DIRECTORY" in said
    (tmp_path / "mistyped").mkdir()
    made.stop(1.0)
    assert decoded(only_file(tmp_path / "mistyped" / "runs").read_bytes(), "a").content["state"] == "ended"


def in_state_of_user(monkeypatch: pytest.MonkeyPatch, state: Path, rank: int = 0) -> FakeAgent:
    """The agent of one run that left its record, as far as it did, in the user's state directory."""
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    agent = FakeAgent({"run_directory": None, "keep_runs": True, "run_interval": 1e-9})
    made = RunRecordExporter()
    made.start(agent)
    snapshot = content(rank=rank)["snapshot"]
    made.export(Batch(SnapshotData(now(), snapshot), (), ()))
    made.stop(1.0)
    return agent


def test_where_no_directory_is_given_the_first_rank_keeps_its_record_for_the_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_state_of_user(monkeypatch, tmp_path, rank=1)
    assert list(tmp_path.iterdir()) == []
    in_state_of_user(monkeypatch, tmp_path)
    records = tmp_path / "jaxobs" / "runs"
    assert stat.S_IMODE(records.stat().st_mode) == 0o700
    assert only_file(records).name.startswith("train-rank0-")


def record_of(directory: Path, day: int, written: float) -> str:
    path = directory / f"train-rank0-202601{day:02}T000000Z-abc.json"
    path.write_text("{}")
    os.utime(path, (written, written))
    return path.name


def test_of_the_users_records_those_written_last_are_kept_and_what_is_not_ours_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_record, "MAX_RUNS", 3)
    records = tmp_path / "jaxobs" / "runs"
    records.mkdir(parents=True)
    names = [record_of(records, 1 + number, number) for number in range(5)]
    for other in ("mine.txt", "mine.json"):
        (records / other).write_text("not of a run")
    large = records / names[4].replace("abc", "large")
    with large.open("wb") as file:
        file.truncate(2**30)
    drafts = [records / f".{name}.0123456789abcdef.draft" for name in names[:2]]
    for draft in drafts:
        draft.write_text("")
    os.utime(drafts[0], (0, 0))
    in_state_of_user(monkeypatch, tmp_path)
    left = {path.name for path in records.iterdir()}
    assert {*names[3:], "mine.txt", "mine.json", large.name, drafts[1].name} < left
    assert len(left) == 7  # and the new one


def test_records_are_in_the_order_in_which_their_runs_began(tmp_path: Path) -> None:
    long, short = record_of(tmp_path, 1, 3e9), record_of(tmp_path, 2, 2e9)
    (tmp_path / f"{short.replace('rank0', 'rank1')}").write_text("{}")
    renamed = tmp_path / "before.json"
    renamed.write_text("{}")
    os.utime(renamed, (1e9, 1e9))
    assert [path.name for path in runs.kept(tmp_path)] == [short, long, "before.json"]
    assert runs.named("last~1", tmp_path) == tmp_path / long
    assert runs.named("bef", tmp_path) == renamed
    assert runs.named("last~3", tmp_path) is runs.named("last", tmp_path / "nowhere") is None


def test_a_run_of_any_name_leaves_a_record(tmp_path: Path) -> None:
    made, agent = exporter(tmp_path)
    agent.resource = {**agent.resource, "service.instance.id": "a/b-c"}
    snapshot = content()["snapshot"]
    snapshot["process"]["run"] = "../é" + 400 * "x"
    made.export(Batch(SnapshotData(now(), snapshot), (), ()))
    assert only_file(tmp_path).name.startswith("..-xxxx")
    assert agent.lines == []


def test_a_state_directory_that_cannot_be_written_to_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jaxobs").write_text("a file")
    (said,) = in_state_of_user(monkeypatch, tmp_path).lines
    assert "no record of the run can be written" in said
    assert "JAXOBS_KEEP_RUNS=0" in said


def test_the_users_state_directory_is_that_of_xdg_and_never_the_working_directory() -> None:
    keeps = {"run_directory": None, "keep_runs": True}
    assert runs.directory_of(keeps, {"XDG_STATE_HOME": "/state"}) == Path("/state/jaxobs/runs")
    at_home = Path("~/.local/state/jaxobs/runs").expanduser()
    assert runs.directory_of(keeps, {"XDG_STATE_HOME": "state"}) == runs.directory_of(keeps, {}) == at_home
    assert runs.directory_of(keeps | {"run_directory": "/given"}, {}) == Path("/given")
    assert runs.directory_of({"run_directory": None, "keep_runs": False}, {}) is None


def test_a_full_disk_leaves_the_record_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, agent = exporter(tmp_path)
    made.export(batch())
    before = only_file(tmp_path).read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    made.export(batch())
    made.stop(1.0)
    assert only_file(tmp_path).read_bytes() == before
    assert ["No space left" in line for line in agent.lines] == [True]


def test_a_planted_link_is_replaced_and_not_written_through(tmp_path: Path) -> None:
    runs, victim = tmp_path / "runs", tmp_path / "victim"
    victim.write_text("precious")
    made, _ = exporter(runs)
    made.export(batch())
    path = only_file(runs)
    path.unlink()
    path.symlink_to(victim)
    made.stop(1.0)
    assert victim.read_text() == "precious"
    assert stat.S_ISREG(path.lstat().st_mode)


def test_other_load_is_what_was_busy_beside_the_job_and_the_agent() -> None:
    load, job = HostLoad(), 0.0
    for second in range(31):
        if second % 5 == 0:
            job = 2.0 * second  # two processors, read every five seconds
        measured: tuple[tuple[str, Kind, str, float], ...] = (
            (BUSY, "gauge", "ratio", 0.5), (CPUS, "gauge", "", 8.0), (JOB, "counter", "seconds", job),
        )  # fmt: skip
        families = tuple(
            Family(Metric(name, kind, "A test's.", unit=unit), {(): value})
            for name, kind, unit, value in measured
        )  # fmt: skip
        document = {"agent": {"cpu_seconds": {"agent": 0.1 * second}}}
        load.read(SnapshotData(second * 10**9, document, families))
    told = load.to_dict()
    assert told["cpus"] == 8.0
    assert told["other_cpus"] == pytest.approx(8 * 0.5 - 2.0 - 0.1)
    assert told["throttled_cpus"] is None
    assert told["throttled_cpus_reason"]


def test_no_load_is_told_of_where_the_host_is_not_read() -> None:
    load = HostLoad()
    load.read(SnapshotData(0, {}))
    assert load.to_dict()["other_cpus"] is None
    assert load.to_dict()["other_cpus_reason"]


def test_the_environment_has_what_bears_on_speed_and_no_secret() -> None:
    environment = {
        "XLA_FLAGS": "--xla_a", "JAX_ENABLE_X64": "1", "OMP_NUM_THREADS": "2", "HOME": "/root", "WANDB_API_KEY": "k",
        "JAX_COORDINATOR_ADDRESS": "node:1", "JAX_SECRET": "s", "TPU_WORKER_HOSTNAMES": "a,b", "NCCL_COMM_ID": "x",
    }  # fmt: skip
    assert set(relevant_environment(environment)) == {"XLA_FLAGS", "JAX_ENABLE_X64", "OMP_NUM_THREADS"}


def final_record(runs: Path) -> Record:
    """The record that the agent leaves, some time after the job is gone."""

    def ended() -> Record | None:
        records = (decoded(path.read_bytes(), path.name) for path in runs.glob("*.json"))
        return next((record for record in records if record.content["state"] == "ended"), None)

    record = wait_for(ended, f"a record of the end in {runs}")
    assert record is not None
    return record


def test_a_job_that_ends_leaves_a_record(run: Callable[..., Outcome], tmp_path: Path) -> None:
    outcome = run(TRAIN.format(seconds=3), JAXOBS_RUN_DIRECTORY=str(tmp_path))
    assert outcome.status == 0, outcome.stderr
    record = final_record(tmp_path)
    assert record.snapshot["loops"]["train"]["steps"] > 0
    assert record.content["windows"]["train"]["steps"]
    assert {"python", "jax", "jaxlib", "jaxobs"} <= set(record.content["versions"])


def test_a_job_that_is_killed_leaves_one_too(start: Callable[..., Job], tmp_path: Path) -> None:
    job = start(TRAIN.format(seconds=600), JAXOBS_RUN_DIRECTORY=str(tmp_path))
    job.wait_for("trained for two seconds")
    job.process.kill()
    job.end()
    assert final_record(tmp_path).snapshot["loops"]["train"]["steps"] > 0
