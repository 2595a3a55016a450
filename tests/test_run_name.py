"""Who a process is: one name for a run over all its ranks and restarts, whoever launched it."""

from __future__ import annotations

import pytest

from jaxobs.identity import attempt, job_key, read_identity, run_name, script_name

SLURM = {"SLURM_JOB_ID": "812", "SLURM_JOB_NAME": "llama"}
INDEXED = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "JOB_COMPLETION_INDEX": "3"}
SCRIPT = ["/home/a/train.py", "--lr", "1"]


@pytest.mark.parametrize(
    ("environment", "host", "name"),
    [
        (SLURM, "node1", "llama"),
        (SLURM | {"SLURM_JOB_ID": "813", "SLURM_RESTART_COUNT": "2", "SLURM_PROCID": "5"}, "node2", "llama"),
        (SLURM | {"SLURM_ARRAY_TASK_ID": "7"}, "node1", "llama-7"),
        (SLURM | {"SLURM_JOB_NAME": "wrap"}, "node1", "train"),
        (SLURM | {"SLURM_JOB_NAME": "python3.11"}, "node1", "train"),
        ({"SLURM_JOB_NAME": "left over from a shell"}, "node1", "train"),
        (INDEXED, "llama-3", "llama"),
        (INDEXED, "llama-3.workers", "llama"),
        (INDEXED, "a-pod-by-hand", "train"),
        (INDEXED | {"JOBSET_NAME": "pods"}, "pods-slice-1-3", "pods"),
        ({"OMPI_COMM_WORLD_RANK": "1", "PMIX_NAMESPACE": "prterun-1@1"}, "node1", "train"),
        ({}, "node1", "train"),
    ],
)
def test_the_name_is_the_launchers_job_else_the_scripts(
    environment: dict[str, str], host: str, name: str
) -> None:
    assert run_name(None, environment, host, SCRIPT) == name
    assert run_name("mine", environment, host, SCRIPT) == "mine"


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (["train.py"], "train"),
        (["/srv/maxtext/__main__.py"], "maxtext"),
        (["-c"], None),
        (["-"], None),
        ([""], None),
        ([], None),
        (["/usr/lib/python3/ipykernel_launcher.py", "-f", "x.json"], None),
    ],
)
def test_a_script_names_its_run_and_a_prompt_does_not(argv: list[str], name: str | None) -> None:
    assert script_name(argv) == name


@pytest.mark.parametrize(
    ("environment", "restarts"),
    [
        (SLURM, 0),
        (SLURM | {"SLURM_RESTART_COUNT": "2"}, 2),
        ({"JOBSET_RESTART_ATTEMPT": "0"}, 0),
        ({"JOBSET_RESTART_ATTEMPT": "4"}, 4),
        ({"TORCHELASTIC_RESTART_COUNT": "1"}, 1),
        (INDEXED, None),
        ({}, None),
        ({"JOBSET_RESTART_ATTEMPT": "soon"}, None),
    ],
)
def test_restarts_are_counted_where_a_launcher_counts_them(
    environment: dict[str, str], restarts: int | None
) -> None:
    assert attempt(environment) == restarts


def test_ranks_of_one_start_share_a_key_and_two_starts_do_not() -> None:
    rank = SLURM | {"SLURM_STEP_ID": "0"}
    first = job_key(None, rank | {"SLURM_PROCID": "0"}, "node1")
    assert first is not None
    assert first == job_key(None, rank | {"SLURM_PROCID": "1"}, "node2")
    again = [rank | {"SLURM_RESTART_COUNT": "1"}, rank | {"SLURM_STEP_ID": "1"}, rank | {"SLURM_JOB_ID": "9"}]
    assert first not in {job_key(None, environment, "node1") for environment in again}
    assert job_key(None, {}, "node1") is None, "two runs of one script must not share trace ids"


def test_what_the_user_says_of_the_process_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", SCRIPT)
    found = read_identity({"USER": "ada", "OTEL_SERVICE_NAME": "llm", "RANK": "2"}).resource
    assert (found["jaxobs.run"], found["process.owner"], found["service.name"]) == ("train", "ada", "llm")
    assert "jaxobs.attempt" not in found
    attributes = "service.instance.id=mine,jaxobs.run=a%20b,team=x,broken"
    told = read_identity({"OTEL_RESOURCE_ATTRIBUTES": attributes}, instance="the SDK's").resource
    assert (told["service.instance.id"], told["jaxobs.run"], told["team"]) == ("mine", "a b", "x")
    assert read_identity({}, instance="the SDK's").resource["service.instance.id"] == "the SDK's"


def test_a_name_of_any_letters_makes_a_file_name() -> None:
    assert read_identity({"RANK": "2"}, run="a/b c").name == "a-b-c-rank2"
