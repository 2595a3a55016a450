"""The name of a run, one over all its ranks and restarts, and how often it was restarted. From the environment alone."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import PurePath

_SLURM_DEFAULTS = re.compile(r"sbatch|wrap|interactive|(ba|da|z|k|tc|c|fi)?sh|python[\d.]*|jaxobs|env|uv")
"""Names that Slurm gives where the user gave none, and that say nothing: `sbatch` for a script on standard input, `wrap`
for `--wrap`, and the name of the command for srun and salloc (man sbatch, srun, salloc: --job-name)."""

_LAUNCHERS = frozenset({"ipykernel_launcher", "ipython"})
"""What a notebook's or a prompt's process runs: no script of the user's."""

_RESTARTS = ("JOBSET_RESTART_ATTEMPT", "TORCHELASTIC_RESTART_COUNT")
"""The first is for the label `jobset.sigs.k8s.io/restart-attempt` of a JobSet's pods, by the downward API; torchrun sets
the second: https://docs.pytorch.org/docs/stable/elastic/run.html#environment-variables"""


def run_name(
    given: str | None, environment: Mapping[str, str], host: str, argv: Sequence[str] | None = None
) -> str | None:
    """The user's own name, else that of the job in SLURM or Kubernetes, else the script's; None where there is none.

    Ranks that Open MPI, srun or `jax.distributed` run together run one script, so they agree.
    """
    return (
        given
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
    """How often the run was started again; None where no launcher tells."""
    # Slurm sets the count once there is one to set (man sbatch, output environment).
    if "SLURM_JOB_ID" in environment:
        return first_number(environment, ("SLURM_RESTART_COUNT",)) or 0
    return first_number(environment, _RESTARTS)


def job_key(given: str | None, environment: Mapping[str, str], host: str) -> str | None:
    """What only the ranks of one start of one job share, so that they can share trace ids; None where nothing tells.

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
    """The first of these variables that holds a number from 0 on; None where none does."""
    values = (environment.get(name, "") for name in names)
    return next((int(value) for value in values if value.isdecimal()), None)
