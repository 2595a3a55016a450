"""Who this process is: its host, rank and job, the name of its run, and how often that was restarted.

From the environment alone: asking JAX would make its backend.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import socket
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from urllib.parse import unquote

from jaxobs.report.runs import MAX_NAME

_SLURM_DEFAULTS = re.compile(r"sbatch|wrap|interactive|(ba|da|z|k|tc|c|fi)?sh|python[\d.]*|jaxobs|env|uv")
"""Names that Slurm gives where the user gave none, and that say nothing: `sbatch` for a script on standard input, `wrap`
for `--wrap`, and the name of the command for srun and salloc (man sbatch, srun, salloc: --job-name)."""

_LAUNCHERS = frozenset({"ipykernel_launcher", "ipython"})
"""What a notebook's or a prompt's process runs: no script of the user's."""

_RESTARTS = ("JOBSET_RESTART_ATTEMPT", "TORCHELASTIC_RESTART_COUNT")
"""The first is for the label `jobset.sigs.k8s.io/restart-attempt` of a JobSet's pods, by the downward API; torchrun sets
the second: https://docs.pytorch.org/docs/stable/elastic/run.html#environment-variables"""


_LAUNCHED = (
    ("JAX_PROCESS_ID", "JAX_NUM_PROCESSES", ""),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"),
)
"""Variables of the rank, of the number of ranks and of the rank on the host, of the innermost launcher first. In a batch
script Slurm sets SLURM_PROCID too, but the number of tasks of a step only in what srun starts (man srun, sbatch)."""

_TPU_WORKERS = ("TPU_PROCESS_ADDRESSES", "TPU_WORKER_HOSTNAMES")
"""The workers of a slice, by commas: what `jax.distributed.initialize()` reads beside TPU_WORKER_ID and MEGASCALE_…"""

_JOB_VARIABLES = (
    "SLURM_JOB_ID", "SLURM_STEP_ID", "PMIX_NAMESPACE", "TORCHELASTIC_RUN_ID", "JAX_COORDINATOR_ADDRESS",
    "MASTER_ADDR", "MASTER_PORT",
)  # fmt: skip
"""What all processes of one run have in common, and its restarts too, where their launcher sets it."""

_NAMES_IN_TRACKERS = ("WANDB_NAME", "MLFLOW_RUN_NAME")
"""https://docs.wandb.ai/guides/track/environment-variables; MLflow reads no such variable itself (tried: 3.17), but
scripts give it to `start_run`. Their ids are no names: that of each run would be new, and a child process has its
parent's."""

_EXPERIMENT_VARIABLES = (
    "WANDB_SWEEP_ID", "WANDB_RUN_GROUP", "MLFLOW_EXPERIMENT_NAME", "WANDB_PROJECT", "SLURM_ARRAY_JOB_ID",
)  # fmt: skip
"""What the runs of a sweep share, the narrower first."""

_USER_VARIABLES = ("SLURM_JOB_USER", "LOGNAME", "USER")
"""Looked at before the system's table of users, as by `getpass.getuser()`. That is looked at by the agent: it may be on a
network that does not answer, and a child that the job forks meanwhile would keep the socket."""

_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def run_name(
    given: str | None, environment: Mapping[str, str], host: str, argv: Sequence[str] | None = None
) -> str | None:
    """The user's own name, here or in W&B or MLflow, else the SLURM or Kubernetes job's, else the script's, or None.

    Ranks that Open MPI, srun or `jax.distributed` run together run one script, so they agree.
    """
    return (
        given
        or _first(environment, _NAMES_IN_TRACKERS)
        or _slurm_job(environment)
        or _kubernetes_job(environment, host)
        or script_name(sys.argv if argv is None else argv)
    )


def script_name(argv: Sequence[str]) -> str | None:
    """`train` for `train.py` and `-m project.train`, `project` for `-m project`; None at a prompt or in a notebook."""
    path = PurePath(argv[0] if argv else "")
    stem = path.parent.name if path.name == "__main__.py" else path.stem
    return None if not stem or stem.startswith("-") or stem in _LAUNCHERS else stem


def attempt(environment: Mapping[str, str]) -> int | None:
    """How often the run was started again; None if no launcher tells."""
    within = first_number(environment, _RESTARTS)
    if "SLURM_JOB_ID" not in environment:
        return within
    # Slurm sets the count once there is one to set (man sbatch, output environment).
    return (first_number(environment, ("SLURM_RESTART_COUNT",)) or 0) + (within or 0)


def job_key(given: str | None, environment: Mapping[str, str], host: str) -> str | None:
    """What only the ranks of one start of one job share, so that they can share trace ids; None if nothing tells.

    A script's name is no such thing, nor is a coordinator's address: two runs of one script are two jobs.
    """
    name = given or _kubernetes_job(environment, host)
    identity = (
        environment.get("SLURM_JOB_ID"),
        environment.get("SLURM_STEP_ID"),
        environment.get("PMIX_NAMESPACE"),  # one for each mpirun (PMIx standard, environment of clients)
    )
    if name is None and not any(identity):
        return None
    return "/".join(str(part or "") for part in (name, *identity, attempt(environment)))


def _slurm_job(environment: Mapping[str, str]) -> str | None:
    """Without the job's id, which a new submission changes; the tasks of an array are runs of their own."""
    name = environment.get("SLURM_JOB_NAME", "")
    if "SLURM_JOB_ID" not in environment or not name or _SLURM_DEFAULTS.fullmatch(name):
        return None
    return "-".join(filter(None, (name, environment.get("SLURM_ARRAY_TASK_ID"))))


def _kubernetes_job(environment: Mapping[str, str], host: str) -> str | None:
    """A JobSet's name where the pod was told it, else that of an indexed Job, whose pods are called `NAME-INDEX`.

    https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode
    """
    if name := environment.get("JOBSET_NAME"):
        return name
    index = environment.get("JOB_COMPLETION_INDEX")
    job, dash, last = host.partition(".")[0].rpartition("-")
    return job if index and dash and last == index else None


def first_number(environment: Mapping[str, str], names: Sequence[str]) -> int | None:
    """The first of these variables that holds a number from 0 on; None if none does."""
    values = (environment.get(name, "") for name in names)
    return next((int(value) for value in values if value.isdecimal()), None)


def launched_rank(environment: Mapping[str, str]) -> int | None:
    """The number of this process among several that a launcher started together; None if it is alone, or none tells."""
    rank, count, _ = _launched(environment)
    return rank if (count or 0) > 1 else None


def is_first(environment: Mapping[str, str]) -> bool:
    """Whether this process is alone, as far as is told, or the first of those that a launcher started together."""
    rank, count, _ = _launched(environment)
    return not rank or count == 1


def _launched(environment: Mapping[str, str]) -> tuple[int | None, int | None, int]:
    """The number of this process, of how many, and on its host, as the launcher tells that tells the first two.

    Where it does not tell the third, one does that counts in the same way: srun, where JAX_PROCESS_ID is SLURM_PROCID.
    RANK and LOCAL_RANK together are a launcher's that does not tell how many. One of them alone says nothing: RANK may be
    a number of the user's own (a LoRA's), and LOCAL_RANK choose the device of a process that is alone.
    """
    rows = [tuple(first_number(environment, (name,)) for name in names) for names in _LAUNCHED]
    counted = next((row[:2] for row in rows if None not in row[:2]), None) or _tpu_worker(environment)
    both = [first_number(environment, (name,)) for name in ("RANK", "LOCAL_RANK")]
    rank, count = counted or (None if None in both else both[0], None)
    on_host = (row[2] for row in rows if rank is None or row[:2] == (rank, count))
    return rank, count, next((number for number in on_host if number is not None), 0)


def _tpu_worker(environment: Mapping[str, str]) -> tuple[int, int] | None:
    """The number of this worker of a TPU's slices, and of how many; None if the environment has no list of them."""
    worker, workers = first_number(environment, ("TPU_WORKER_ID",)), _first(environment, _TPU_WORKERS)
    if worker is None or workers is None:
        return None
    of_slice = workers.count(",") + 1
    before = of_slice * (first_number(environment, ("MEGASCALE_SLICE_ID",)) or 0)
    return before + worker, of_slice * (first_number(environment, ("MEGASCALE_NUM_SLICES",)) or 1)


def run_ids(environment: Mapping[str, str], host: str, *belonging: str | None) -> tuple[str, str]:
    """The id of the run that this process is by itself, and of the one that it is if JAX has several processes.

    `belonging`: what tells apart runs that one launcher may have started, such as user and name. Ranks agree on the
    second. Where a launcher counts its processes, the first is the same after a restart; else it is unique.
    """
    job = _kubernetes_job(environment, host)
    shared = [*belonging, job, *map(environment.get, _JOB_VARIABLES)]
    # Else it is in a shell that srun or sbatch has started, with others perhaps.
    is_task = environment.get("SLURM_TASK_PID") == str(os.getpid())
    numbers = [
        environment.get("JOB_COMPLETION_INDEX") if job else None,
        launched_rank(environment),
        environment.get("SLURM_PROCID") if is_task else None,
    ]
    counted = any(number is not None for number in numbers)
    return digest([*shared, *map(str, numbers)]) if counted else uuid.uuid4().hex[:8], digest(shared)


def is_told_its_job(environment: Mapping[str, str]) -> bool:
    """Whether a launcher or the user tells which job this process is of, so that `run_ids` of others differ."""
    names = (*_JOB_VARIABLES, "JOBSET_NAME", "JOB_COMPLETION_INDEX")
    return any(map(environment.get, names)) or "jaxobs.run_id" in given_attributes(environment)


def digest(parts: Sequence[str | None]) -> str:
    """Short, because legends show it beside the name: runs of one name are some thousands at most."""
    return hashlib.blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()


@dataclass(frozen=True, slots=True)
class Identity:
    """This process, as its environment tells."""

    name: str
    """Which process of which run, for names of files: `run-rank3`, `rank3`, or `process1234` without a rank."""
    job: str | None
    """What only the ranks of this one start share."""
    run_ids: tuple[str, str]
    """The run's if JAX turns out to have one process, and several; until then the resource has what a launcher tells."""
    is_first: bool
    """Alone, or the first of those that a launcher started together."""
    rank_on_host: int
    in_kubernetes: bool
    resource: Mapping[str, str]
    """OpenTelemetry resource attributes; names follow its semantic conventions where they exist."""


def read_identity(
    environment: Mapping[str, str] = os.environ, run: str | None = None, instance: str | None = None
) -> Identity:
    """This process, by the environment that its launcher made.

    `run` is the name that the user gave; `instance` the one that the application's own OpenTelemetry SDK has. Resource
    attributes that the user set win, but for the number of the process, which is measured by it.
    """
    in_kubernetes = "KUBERNETES_SERVICE_HOST" in environment
    host, (rank, count, rank_on_host) = "", _launched(environment)
    with contextlib.suppress(Exception):  # of a guard of the job's that forbids sockets
        host = socket.gethostname()
    named, given = run_name(run, environment, host), given_attributes(environment)
    user = _first(environment, _USER_VARIABLES)
    namespace = environment.get("POD_NAMESPACE") or (_read(_NAMESPACE_FILE) if in_kubernetes else None)
    cluster = environment.get("SLURM_CLUSTER_NAME") or given.get("k8s.cluster.name")
    ids = run_ids(environment, host, named, user or str(os.geteuid()), namespace, cluster)
    if own := given.get("jaxobs.run_id"):
        ids = own, own
    attributes: dict[str, object | None] = {
        "service.name": "jax",
        "service.instance.id": instance or uuid.uuid4(),  # unique to this run of this process
        "host.name": host or None,
        "process.pid": os.getpid(),
        "process.owner": user,
        "jax.process_index": rank,
        "jax.process_count": count,
        "jaxobs.run": named,
        "jaxobs.script": script_name(sys.argv),
        "jaxobs.run_id": ids[launched_rank(environment) is not None],
        "jaxobs.attempt": attempt(environment),
        "jaxobs.experiment": _first(environment, _EXPERIMENT_VARIABLES),
        "jaxobs.cluster": cluster,
        "wandb.run_id": environment.get("WANDB_RUN_ID"),
        "mlflow.run_id": environment.get("MLFLOW_RUN_ID"),
        "slurm.job_id": environment.get("SLURM_JOB_ID"),
        "k8s.pod.name": environment.get("POD_NAME") or (host if in_kubernetes else None),
        "k8s.namespace.name": namespace,
    }
    known = {name: str(value) for name, value in attributes.items() if value is not None}
    given.pop("process.pid", None)
    process = f"process{os.getpid()}" if rank is None else f"rank{rank}"
    # A name that the file system does not take would leave no summary.
    run_in_files = re.sub(r"[^\w.-]+", "-", named or "").encode()[:MAX_NAME].decode(errors="ignore")
    return Identity(
        name="-".join(filter(None, (run_in_files, process))),
        job=job_key(run, environment, host),
        run_ids=ids,
        is_first=is_first(environment),
        rank_on_host=rank_on_host,
        in_kubernetes=in_kubernetes,
        resource=known | given,
    )


def process_age_seconds() -> float | None:
    """Seconds since this process was started, where the system tells (Linux: /proc), else None."""
    with contextlib.suppress(Exception):  # also of a guard of the job's that forbids to open files
        _, start = state_and_start("self")
        uptime = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
        return max(0.0, uptime - int(start) / os.sysconf("SC_CLK_TCK"))
    return None


def state_and_start(process: int | str) -> tuple[str, str]:
    """The letter of a process's state and when it started, in clock ticks since boot (proc_pid_stat(5)).

    Empty where that is not known. `process` is its number, or `self`.
    """
    try:
        # The name in the second field may hold anything, hence the split behind it.
        text = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2]
        fields = text.decode("ascii", "replace").split()
    except Exception:  # noqa: BLE001  # it has ended; or a guard of the job's forbids to open files
        return "", ""
    return (fields[0], fields[19]) if len(fields) > 19 else ("", "")


def given_attributes(environment: Mapping[str, str]) -> dict[str, str]:
    """OTEL_RESOURCE_ATTRIBUTES, in which OTEL_SERVICE_NAME replaces `service.name`: the SDK's own order.

    Values are percent-encoded: https://opentelemetry.io/docs/specs/otel/resource/sdk/#specifying-resource-information-via-an-environment-variable
    """
    pairs = (pair.partition("=") for pair in environment.get("OTEL_RESOURCE_ATTRIBUTES", "").split(","))
    given = {name.strip(): unquote(value.strip()) for name, equals, value in pairs if equals and name.strip()}
    if service := environment.get("OTEL_SERVICE_NAME"):
        given["service.name"] = service
    return {name: value for name, value in given.items() if value}


def _first(environment: Mapping[str, str], names: Sequence[str]) -> str | None:
    """The first of these variables that is not empty."""
    return next(filter(None, map(environment.get, names)), None)


def _read(path: Path) -> str | None:
    with contextlib.suppress(Exception):
        return path.read_text(encoding="utf-8").strip() or None
    return None
