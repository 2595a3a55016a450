"""Exporter `run_record`: writes a record of each process's run, for `jaxobs compare` and `jaxobs show`.

It is written to a directory every few minutes and when the job ends or is killed.
"""

from __future__ import annotations

import os
import platform
import re
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from jaxobs.model.clock import NANOSECONDS, monotonic, now, seconds, wall_now
from jaxobs.model.figure import Figure, figure
from jaxobs.model.snapshot import SnapshotData
from jaxobs.plugin.base import Exporter
from jaxobs.plugin.discovery import installed_versions
from jaxobs.plugin.files import DRAFT_NAME, write_whole, writing_remarks
from jaxobs.plugin.protocol import Agent, Batch, Remark
from jaxobs.report.record import FORMAT, LARGEST_BYTES, VERSION, State, StepWindows, encoded
from jaxobs.report.runs import RECORD_NAME, directory_of
from jaxobs.vocabulary.text import masked

PREFIXES: Final = (
    "JAX_",
    "XLA_",
    "LIBTPU_",
    "TPU_",
    "NCCL_",
    "OMP_",
    "MKL_",
    "OPENBLAS_",
    "CUDA_VISIBLE",
    "NVIDIA_TF32",
)
"""Prefixes of variables that change what XLA compiles or how it runs."""

UNLIKE: Final = (
    "ADDRESS",
    "COORDINATOR",
    "PROCESS_ID",
    "COMM_ID",
    "HOSTNAMES",
    "TOKEN",
    "SECRET",
    "KEY",
    "PASSWORD",
)
"""Parts of the names of variables that are left out: they differ in every run, or are secret."""

MAX_NAME: Final = 100
"""Most letters of the run's name in a file's: with rank, time and instance that is less than the 255 bytes allowed."""

LONGEST: Final = 500
"""Most characters of a variable's value that are kept."""

PLUGINS: Final = ("jax-cuda12-plugin", "jax-cuda13-plugin", "jax-rocm7-plugin", "libtpu")
"""Distributions that contain a device's compiler."""


def relevant_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that bear on speed, as the agent inherited them from the job when it was started."""
    return {
        name: str(masked(name, value))[:LONGEST]
        for name, value in sorted(environment.items())
        if name.startswith(PREFIXES) and not any(word in name for word in UNLIKE)
    }


def versions(process: Mapping[str, Any]) -> dict[str, str]:
    """The versions of Python, jaxobs, JAX and the compilers of devices; what is not installed is absent."""
    own = {name: str(process[name]) for name in ("jaxobs", "jax", "jaxlib") if process.get(name)}
    return {"python": platform.python_version(), **own, **installed_versions(*PLUGINS)}


BUSY: Final = "jaxobs_host_cpu_utilization_ratio"
CPUS: Final = "jaxobs_host_cpus"
JOB: Final = "jaxobs_process_cpu_seconds_total"
THROTTLED: Final = "jaxobs_cgroup_cpu_throttled_seconds_total"

NOT_READ: Final = "the collector `host` has not read twice, or cannot read the processors of this host"


class _Reading(NamedTuple):
    """A reading of the collector: `time` and processor seconds so far; None if no limit withholds any."""

    time: float
    job: float
    agent: float
    throttled: float | None


class HostLoad:
    """Accumulates the host's load over the run, from snapshots with new readings of the collector."""

    def __init__(self) -> None:
        self._readings: list[_Reading] = []
        """The first and the newest."""
        self._cpus = 0.0
        self._busy_cpu_seconds = 0.0

    def read(self, snapshot: SnapshotData) -> None:
        """Add a snapshot's readings, unless they are those of the one before."""
        busy, cpus, job = (_value(snapshot, name) for name in (BUSY, CPUS, JOB))
        before = self._readings[-1] if self._readings else None
        if busy is None or cpus is None or job is None or (before is not None and job == before.job):
            return
        agent = ((snapshot.document.get("agent") or {}).get("cpu_seconds") or {}).get("agent") or 0.0
        reading = _Reading(seconds(snapshot.time), job, float(agent), _value(snapshot, THROTTLED))
        self._cpus = cpus
        if before is not None:
            self._busy_cpu_seconds += busy * cpus * (reading.time - before.time)
        self._readings = [*self._readings[:1], reading]

    def to_dict(self) -> dict[str, Any]:
        """The means over the run.

        `other_cpus`: processors kept busy by all but the training process and the agent, including the job's own loader
        workers. `throttled_cpus`: processors' worth of time that the container's limit withheld.
        """
        if len(self._readings) < 2:
            absent: Figure[float] = Figure(None, NOT_READ)
            return absent.under("cpus") | absent.under("other_cpus") | absent.under("throttled_cpus")
        first, newest = self._readings
        over = newest.time - first.time
        own = newest.job - first.job + newest.agent - first.agent
        known = first.throttled is not None and newest.throttled is not None
        withheld = (newest.throttled or 0.0) - (first.throttled or 0.0) if known else None
        throttled = figure(None if withheld is None else withheld / over, "no processor limit is known here")
        other = max(0.0, self._busy_cpu_seconds - own) / over
        return {"cpus": self._cpus, "other_cpus": other, **throttled.under("throttled_cpus")}


def _value(snapshot: SnapshotData, metric: str) -> float | None:
    for family in snapshot.families:
        if family.metric.name == metric:
            value = family.series.get(())
            return float(value) if isinstance(value, int | float) else None
    return None


MAX_RUNS: Final = 100
"""Most records in the user's state directory. Each has 1 MB at most, so all of them have 100 MB."""

OLD_SECONDS: Final = 3600.0
"""Age of a draft whose writer is gone."""


def _make_room(directory: Path) -> None:
    """Delete the records written first beyond MAX_RUNS, and drafts of killed writers; no other file."""
    found = []
    old = wall_now() / NANOSECONDS - OLD_SECONDS
    for path in directory.iterdir():
        with suppress(OSError):  # another process has deleted it
            status = path.lstat()
            if stat.S_ISREG(status.st_mode) and status.st_size <= LARGEST_BYTES:
                if RECORD_NAME.fullmatch(path.name):
                    found.append((status.st_mtime, path))
                elif DRAFT_NAME.fullmatch(path.name) and status.st_mtime < old:
                    path.unlink()
    for _, path in sorted(found, reverse=True)[MAX_RUNS:]:
        path.unlink(missing_ok=True)


NOT_COMPARED = frozenset({"rank_on_host", "in_kubernetes"})
"""Entries of the plugins' settings that are facts about the process and no settings."""


class RunRecordExporter(Exporter):
    """Writes the record: of each rank to `run_directory`, else of the first to the user's state directory.

    A failure is logged once, and tried again.
    """

    takes_events = False

    def __init__(self) -> None:
        self._agent: Agent | None = None
        self._directory = Path()
        self._is_users = False  # it is the user's state directory
        self._interval = 0.0
        self._windows: dict[str, StepWindows] = {}
        self._load = HostLoad()
        self._last: SnapshotData | None = None
        self._name: str | None = None
        self._began = 0.0
        self._written_at = 0.0
        self._said: str | None = None

    def check(self, settings: Mapping[str, Any]) -> Iterable[Remark]:
        return writing_remarks(
            settings.get("run_directory"), "a record of the run would be left in", _refused
        )

    def start(self, agent: Agent) -> None:
        """Note the directory. One that was given is made at once; what forbids that is said now, and not at the end."""
        directory = directory_of(agent.settings)
        self.takes_batches = directory is not None
        if directory is not None:
            self._directory, self._agent = directory, agent
            self._is_users = not agent.settings.get("run_directory")
            self.awaited = not self._is_users  # a home may lie on a slow network
            try:
                if not self._is_users:
                    self._make_directory()
            except OSError as error:
                self._say(str(error))
            self._interval = float(agent.settings.get("run_interval") or 0.0)
            self._written_at = monotonic()

    def export(self, batch: Batch) -> None:
        """Add the snapshot to the loops' windows and the host's load, and write the record when it is due."""
        if self._agent is None:
            return
        self._last = batch.snapshot
        self._load.read(batch.snapshot)
        for name, loop in (batch.snapshot.document.get("loops") or {}).items():
            self._windows.setdefault(name, StepWindows()).add(loop)
        if monotonic() - self._written_at >= self._interval:
            self._written_at = monotonic()
            self._write("running")

    def stop(self, timeout: float) -> None:  # noqa: ARG002  # one small file; the agent's own deadline holds for it
        """Write the last record: the job has ended, or was killed."""
        self._write("ended")
        self._agent = None

    def _write(self, state: State) -> None:
        snapshot, agent = self._last, self._agent
        if agent is None or snapshot is None or not _anything_ran(snapshot.document):
            return
        if self._is_users and self._rank(snapshot, agent) not in {None, "0"}:
            return
        if state == "ended":
            snapshot = snapshot.served_no_more()
        try:
            data = encoded(self._record(snapshot, agent, state))
            self._make_directory()
            mode = 0o600 if self._is_users else 0o644
            write_whole(self._directory / self._file_name(snapshot, agent), data, mode)
            if self._is_users:
                _make_room(self._directory)
        except (OSError, ValueError) as error:
            self._say(str(error))
        else:
            self._said = None

    def _make_directory(self) -> None:
        """Make the directory; one that was given without its parents: a mistyped path must not be created."""
        self._directory.mkdir(0o700 if self._is_users else 0o777, parents=self._is_users, exist_ok=True)

    def _say(self, reason: str) -> None:
        """Log why there is no record, unless that was the last thing that was said."""
        problem = _refused(reason)
        if self._agent is not None and problem != self._said:
            self._agent.log(problem)
        self._said = problem

    def _record(self, snapshot: SnapshotData, agent: Agent, state: State) -> dict[str, Any]:
        process = snapshot.document["process"]
        if not self._began:
            self._began = agent.clock.wall_time(snapshot.time) / NANOSECONDS - float(process["seconds"])
        return {
            "format": FORMAT,
            "version": VERSION,
            "state": state,
            "written": agent.clock.wall_time(now()) / NANOSECONDS,
            "began": self._began,
            "settings": {name: value for name, value in agent.settings.items() if name not in NOT_COMPARED},
            "environment": relevant_environment(os.environ),
            "versions": versions(process),
            "host": self._load.to_dict(),
            "windows": {name: windows.to_dict() for name, windows in self._windows.items()},
            "snapshot": dict(snapshot.document),
        }

    def _file_name(self, snapshot: SnapshotData, agent: Agent) -> str:
        """The file's name: run, attempt, rank, start and the beginning of the instance id; fixed at the first call."""
        if self._name is None:
            process, rank = snapshot.document["process"], self._rank(snapshot, agent)
            instance = re.sub(r"\W+", "", agent.resource.get("service.instance.id", ""), flags=re.ASCII)
            start = datetime.fromtimestamp(self._began, UTC).strftime("%Y%m%dT%H%M%SZ")
            words = [
                re.sub(r"[^\w.-]+", "-", process.get("run") or "", flags=re.ASCII)[:MAX_NAME],
                f"attempt{process['attempt']}" if process.get("attempt") is not None else "",
                f"rank{rank}" if rank is not None else f"process{process.get('pid')}",
                start,
                instance[:8],  # jobs may begin in the same second
            ]
            self._name = "-".join(filter(None, words)) + ".json"
        return self._name

    def _rank(self, snapshot: SnapshotData, agent: Agent) -> str | None:
        rank = snapshot.document["process"].get("process_index")
        return agent.resource.get("jax.process_index") if rank is None else str(rank)


def _anything_ran(document: Mapping[str, Any]) -> bool:
    process = document.get("process") or {}
    return bool(process.get("platform") or document.get("loops"))


def _refused(reason: str) -> str:
    return (
        f"no record of the run can be written: {reason}; set JAXOBS_RUN_DIRECTORY to a writable directory, or "
        "JAXOBS_KEEP_RUNS=0"
    )
