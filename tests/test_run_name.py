"""Who a process is: one name for a run over all its ranks and restarts, whoever launched it."""

from __future__ import annotations

import os

import pytest

from jaxobs.identity import (
    attempt,
    is_first,
    is_told_its_job,
    job_key,
    launched_rank,
    read_identity,
    run_ids,
    run_name,
    script_name,
)

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
        (SLURM | {"WANDB_NAME": "wide", "MLFLOW_RUN_NAME": "deep"}, "node1", "wide"),
        ({"WANDB_NAME": "", "MLFLOW_RUN_NAME": "deep"}, "node1", "deep"),
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
        (SLURM | {"TORCHELASTIC_RESTART_COUNT": "1"}, 1),
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
    found = read_identity({"USER": "ada", "OTEL_SERVICE_NAME": "llm"}).resource
    assert (found["jaxobs.run"], found["process.owner"], found["service.name"]) == ("train", "ada", "llm")
    assert "jaxobs.attempt" not in found
    attributes = "service.instance.id=mine,jaxobs.run=a%20b,team=x,broken"
    told = read_identity({"OTEL_RESOURCE_ATTRIBUTES": attributes}, instance="the SDK's").resource
    assert (told["service.instance.id"], told["jaxobs.run"], told["team"]) == ("mine", "a b", "x")
    assert read_identity({}, instance="the SDK's").resource["service.instance.id"] == "the SDK's"


def test_a_name_of_any_letters_makes_a_file_name() -> None:
    assert read_identity({"RANK": "2", "WORLD_SIZE": "4"}, run="a/b c").name == "a-b-c-rank2"
    for letter in "xß実":  # a file's name may have 255 bytes
        name = read_identity({"RANK": "2", "WORLD_SIZE": "4"}, run=300 * letter).name
        assert len(name.encode()) < 120
        assert name.strip(letter) == "-rank2"


STEP = SLURM | {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2"}
TASK = SLURM | {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}
BATCH = SLURM | {"SLURM_NTASKS": "8", "SLURM_PROCID": "0", "SLURM_TASK_PID": "1"}
INTERACTIVE = TASK | {"SLURM_TASK_PID": "1"}
MANY = {"JAX_COORDINATOR_ADDRESS": "node1:1234", "JAX_NUM_PROCESSES": "2"}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (STEP | {"SLURM_PROCID": "0"}, STEP | {"SLURM_PROCID": "1", "SLURM_RESTART_COUNT": "1"}),
        (MANY | {"JAX_PROCESS_ID": "0"}, MANY | {"JAX_PROCESS_ID": "1"}),
        (INDEXED, INDEXED | {"JOB_COMPLETION_INDEX": "0"}),
        ({}, {}),  # `jax.distributed.initialize(address, 2, rank)`: nothing but the script's name binds them
    ],
)
def test_processes_of_one_jax_job_have_one_id(first: dict[str, str], second: dict[str, str]) -> None:
    def ids(environment: dict[str, str]) -> tuple[str, str]:
        return run_ids(environment, f"llama-{environment.get('JOB_COMPLETION_INDEX')}", "llama", "ada")

    assert ids(first)[1] == ids(second)[1]
    assert ids(first)[0] != ids(second)[0], "and one each where each is a JAX of its own, as in a sweep"


@pytest.mark.parametrize("environment", [{}, {"RANK": "0", "WORLD_SIZE": "1"}, SLURM, BATCH, INTERACTIVE])
def test_what_a_shell_starts_again_is_another_run(environment: dict[str, str]) -> None:
    ids = {read_identity(environment, run="mine").resource["jaxobs.run_id"] for _ in range(5)}
    assert len(ids) == 5


def test_a_task_that_slurm_starts_again_is_the_same_run_and_one_of_an_array_its_own() -> None:
    def run_id(**more: str) -> str:
        environment = TASK | {"SLURM_TASK_PID": str(os.getpid())} | more
        return read_identity(environment, run="mine").resource["jaxobs.run_id"]

    assert run_id() == run_id(SLURM_RESTART_COUNT="1")
    assert run_id() not in {run_id(SLURM_JOB_ID="813", SLURM_ARRAY_TASK_ID="1"), run_id(SLURM_STEP_ID="1")}


def test_two_users_clusters_and_namespaces_never_share_a_run() -> None:
    several = MANY | {"JAX_PROCESS_ID": "0", "LOGNAME": "ada"}
    changed = [{}, {"LOGNAME": "bob"}, {"POD_NAMESPACE": "research"}, {"SLURM_CLUSTER_NAME": "b"},
               {"JAX_COORDINATOR_ADDRESS": "node2:1234"}, {"OTEL_RESOURCE_ATTRIBUTES": "k8s.cluster.name=c"}]  # fmt: skip
    found = [read_identity(several | more, run="mine") for more in changed]
    assert len({each.resource["jaxobs.run_id"] for each in found}) == len(changed)
    assert all(each.resource["jaxobs.run_id"] == each.run_ids[1] for each in found)


@pytest.mark.parametrize(
    "environment",
    [SLURM, MANY, INDEXED, {"JOBSET_NAME": "llama"}, {"MASTER_PORT": "29500"},
     {"OTEL_RESOURCE_ATTRIBUTES": "jaxobs.run_id=mine"}],
)  # fmt: skip
def test_what_a_launcher_or_the_user_tells_of_a_job_keeps_its_id_after_a_restart_elsewhere(
    environment: dict[str, str],
) -> None:
    assert is_told_its_job(environment)
    assert not is_told_its_job({"RANK": "0", "WORLD_SIZE": "2", "JOBSET_NAME": ""})


def test_who_belongs_together_is_in_the_resource() -> None:
    sweep = {"WANDB_SWEEP_ID": "s1", "WANDB_PROJECT": "p", "WANDB_RUN_ID": "abc", "MLFLOW_RUN_ID": "def"}
    found = read_identity(sweep | {"SLURM_CLUSTER_NAME": "big"}).resource
    assert (found["jaxobs.experiment"], found["jaxobs.cluster"]) == ("s1", "big")
    assert (found["wandb.run_id"], found["mlflow.run_id"]) == ("abc", "def")
    assert read_identity({"OTEL_RESOURCE_ATTRIBUTES": "jaxobs.run_id=mine"}).run_ids == ("mine", "mine")


GKE = {"TPU_WORKER_HOSTNAMES": "w0,w1,w2,w3"}


@pytest.mark.parametrize(
    ("environment", "rank"),
    [
        ({"RANK": "3", "WORLD_SIZE": "8"}, 3),
        ({"RANK": "3"}, None),
        (BATCH, None),
        (BATCH | {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4"}, 2),
        (STEP | {"SLURM_PROCID": "1"}, 1),
        (TASK, None),
        (GKE | {"TPU_WORKER_ID": "2"}, 2),
        (GKE | {"TPU_WORKER_ID": "2", "MEGASCALE_SLICE_ID": "1", "MEGASCALE_NUM_SLICES": "2"}, 6),
        ({"TPU_WORKER_ID": "1"}, None),
        ({"TPU_WORKER_ID": "0", "TPU_WORKER_HOSTNAMES": "localhost"}, None),
    ],
)
def test_a_rank_is_one_of_several_that_the_innermost_launcher_started(
    environment: dict[str, str], rank: int | None
) -> None:
    assert launched_rank(environment) == rank


@pytest.mark.parametrize(
    ("environment", "first"),
    [
        ({"RANK": "1", "LOCAL_RANK": "1"}, False),
        ({"RANK": "4", "LOCAL_RANK": "0"}, False),
        ({"RANK": "0", "LOCAL_RANK": "0"}, True),
        ({"RANK": "16"}, True),  # of a LoRA, say
        ({"LOCAL_RANK": "1"}, True),  # which device to take
        ({"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "1"}, True),
        ({"TPU_WORKER_ID": "1"}, True),
        (GKE | {"TPU_WORKER_ID": "1"}, False),
        ({"TPU_PROCESS_ADDRESSES": "w0:8476,w0:8477", "TPU_WORKER_ID": "1"}, False),
    ],
)
def test_output_is_hidden_only_where_two_variables_agree_that_there_are_others(
    environment: dict[str, str], first: bool
) -> None:
    assert is_first(environment) == first


MPI = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}
TORCHRUN = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "3"}


@pytest.mark.parametrize(
    ("environment", "rank", "on_host"),
    [
        (BATCH | {"SLURM_LOCALID": "0"} | MPI, "3", 1),
        (TASK | {"SLURM_LOCALID": "0"} | TORCHRUN, "3", 3),
        (STEP | {"SLURM_PROCID": "1", "SLURM_LOCALID": "1"}, "1", 1),
        (STEP | {"SLURM_PROCID": "1", "SLURM_LOCALID": "1", "JAX_PROCESS_ID": "1", "JAX_NUM_PROCESSES": "2"}, "1", 1),
        ({"LOCAL_RANK": "2"}, None, 2),
        ({"RANK": "6", "LOCAL_RANK": "2"}, "6", 2),
    ],
)  # fmt: skip
def test_rank_and_rank_on_the_host_are_those_of_one_launcher(
    environment: dict[str, str], rank: str | None, on_host: int
) -> None:
    found = read_identity(environment)
    assert (found.resource.get("jax.process_index"), found.rank_on_host) == (rank, on_host)
    assert found.is_first == (rank is None)


def test_no_attribute_that_is_given_makes_another_process_the_measured_one() -> None:
    found = read_identity({"OTEL_RESOURCE_ATTRIBUTES": "process.pid=1,team=a"})
    assert (found.resource["process.pid"], found.resource["team"]) == (str(os.getpid()), "a")
