"""Who this process is: host, process, rank, job. From the environment alone: asking JAX would make its backend."""

from __future__ import annotations

import os
import re
import socket
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jaxobs.plugin.guard import Suppressed

_RANK_VARIABLES = ("JAX_PROCESS_ID", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "RANK")
_COUNT_VARIABLES = ("JAX_NUM_PROCESSES", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "WORLD_SIZE")
_RANK_ON_HOST_VARIABLES = ("SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "LOCAL_RANK")
_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True, slots=True)
class Identity:
    """What the environment tells; None where it does not. `instance` is unique to this run of this process."""

    instance: str
    host: str
    pid: int
    rank: int | None
    process_count: int | None
    rank_on_host: int
    run: str | None
    slurm_job: str | None
    pod: str | None
    namespace: str | None
    in_kubernetes: bool
    service: str

    def resource(self) -> dict[str, str]:
        """OpenTelemetry resource attributes; names follow its semantic conventions where they exist."""
        known: dict[str, object | None] = {
            "service.name": self.service,
            "service.instance.id": self.instance,
            "host.name": self.host,
            "process.pid": self.pid,
            "jax.process_index": self.rank,
            "jax.process_count": self.process_count,
            "jaxobs.run": self.run,
            "slurm.job_id": self.slurm_job,
            "k8s.pod.name": self.pod,
            "k8s.namespace.name": self.namespace,
        }
        return {name: str(value) for name, value in known.items() if value is not None}

    def name(self) -> str:
        """Which process of which run, for names of files: `run-rank3`, `rank3`, or `process1234` without a rank."""
        process = f"process{self.pid}" if self.rank is None else f"rank{self.rank}"
        return "-".join(part for part in (self.run, process) if part)


def read_identity(environment: Mapping[str, str] = os.environ, run: str | None = None) -> Identity:
    """Of this process, by the environment that its launcher made."""
    in_kubernetes = "KUBERNETES_SERVICE_HOST" in environment
    host = socket.gethostname()
    return Identity(
        instance=str(uuid.uuid4()),
        host=host,
        pid=os.getpid(),
        rank=_first_number(environment, _RANK_VARIABLES),
        process_count=_first_number(environment, _COUNT_VARIABLES),
        rank_on_host=_first_number(environment, _RANK_ON_HOST_VARIABLES) or 0,
        run=run,
        slurm_job=environment.get("SLURM_JOB_ID"),
        pod=environment.get("POD_NAME") or (host if in_kubernetes else None),
        namespace=environment.get("POD_NAMESPACE") or (_read(_NAMESPACE_FILE) if in_kubernetes else None),
        in_kubernetes=in_kubernetes,
        service=_service_name(environment),
    )


def process_age_seconds() -> float | None:
    """Seconds since this process was started, where the system tells (Linux: /proc), else None."""
    with Suppressed(OSError, ValueError, IndexError):
        # Field 22 counts clock ticks since boot; the name in field 2 may hold spaces, hence the split behind it.
        fields = (
            Path("/proc/self/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        )
        uptime = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
        return max(0.0, uptime - int(fields[19]) / os.sysconf("SC_CLK_TCK"))
    return None


def _service_name(environment: Mapping[str, str]) -> str:
    """OTEL_SERVICE_NAME, else service.name of OTEL_RESOURCE_ATTRIBUTES, else `jax`: the SDK's own order."""
    attributes = re.split(r"\s*,\s*", environment.get("OTEL_RESOURCE_ATTRIBUTES", ""))
    named = [
        pair.partition("=")[2].strip()
        for pair in attributes
        if pair.partition("=")[0].strip() == "service.name"
    ]
    return environment.get("OTEL_SERVICE_NAME") or (named[-1] if named else "") or "jax"


def _first_number(environment: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    for name in names:
        value = environment.get(name, "")
        if value.isdecimal():
            return int(value)
    return None


def _read(path: Path) -> str | None:
    with Suppressed(OSError):
        return path.read_text(encoding="utf-8").strip() or None
    return None
