"""Exporter `run_record`: writes a record of each process's run, for `jaxobs compare` and `jaxobs show`.

It is written to the run's folder at the start, every few minutes, and when the job ends or is killed.
"""

from __future__ import annotations

import math
import os
import platform
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from jaxobs.model.clock import NANOSECONDS, monotonic, now, wall_now
from jaxobs.model.snapshot import SnapshotData
from jaxobs.plugin.base import Exporter
from jaxobs.plugin.discovery import installed_versions
from jaxobs.plugin.files import DRAFT_NAME, why_not_kept, write_whole
from jaxobs.plugin.protocol import Agent, Batch, Remark
from jaxobs.report.page import page
from jaxobs.report.postmortem import BEFORE, RECORDER
from jaxobs.report.record import FORMAT, VERSION, StepWindows, encoded
from jaxobs.report.runs import FOLDER_NAME, PAGE, RECORD, REPORT, SUMMARY, directory_of, is_kept, make_folder
from jaxobs.report.view import View
from jaxobs.vocabulary.text import masked
from jaxobs.vocabulary.words import State

PREFIXES: Final = (
    "JAX_", "XLA_", "LIBTPU_", "TPU_", "NCCL_", "OMP_", "MKL_", "OPENBLAS_", "CUDA_VISIBLE", "NVIDIA_TF32",
)  # fmt: skip
"""Prefixes of variables that change what XLA compiles or how it runs."""

UNLIKE: Final = (
    "ADDRESS", "COORDINATOR", "PROCESS_ID", "COMM_ID", "HOSTNAMES", "TOKEN", "SECRET", "KEY", "PASSWORD",
)  # fmt: skip
"""Parts of the names of variables that are left out: they differ in every run, or are secret."""

MAX_VALUE: Final = 500
"""Most characters of a variable's value that are kept."""

PLUGINS: Final = ("jax-cuda12-plugin", "jax-cuda13-plugin", "jax-rocm7-plugin", "libtpu")
"""Distributions that contain a device's compiler."""


def relevant_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that bear on speed, as the agent inherited them from the job when it was started."""
    return {
        name: str(masked(name, value))[:MAX_VALUE]
        for name, value in sorted(environment.items())
        if name.startswith(PREFIXES) and not any(word in name for word in UNLIKE)
    }


def versions(process: Mapping[str, Any]) -> dict[str, str]:
    """The versions of Python, jaxobs, JAX and the compilers of devices; what is not installed is absent."""
    own = {name: str(process[name]) for name in ("jaxobs", "jax", "jaxlib") if process.get(name)}
    return {"python": platform.python_version(), **own, **installed_versions(*PLUGINS)}


MAX_RUNS: Final = 100
"""Most folders of runs in the user's state directory. A record has 1 MB at most, so all of them have 100 MB."""

MAX_BYTES: Final = 200_000_000
"""Bytes in these folders above which what the oldest hold beside their records is deleted: traces have up to 64 MiB."""

RUNNING_SECONDS: Final = 300.0
"""Since a folder was last written to, for its job to be over: the recorder writes to it with each snapshot."""

BESIDE: Final = {RECORDER, BEFORE, SUMMARY, PAGE}
"""Files that jaxobs writes to a folder beside its record, reports and traces."""


def _make_room(directory: Path, own: Path) -> None:
    """Delete the folders written to longest ago beyond MAX_RUNS, and all but the record in those beyond MAX_BYTES.

    The folder `own` stays as it is, and so do those of jobs that still run and what no jaxobs has written.
    """
    found, running = [], wall_now() / NANOSECONDS - RUNNING_SECONDS
    for path in directory.iterdir():
        if FOLDER_NAME.fullmatch(path.name) and path != own and path.is_dir() and not path.is_symlink():
            with suppress(OSError):  # another process has deleted it
                written = [path / name for name in (RECORD, RECORDER) if (path / name).exists()] or [path]
                at = max(file.stat().st_mtime for file in written)
                found += [(at, path)] if at < running else []
    left = MAX_BYTES - _size(own)
    for number, (_, path) in enumerate(sorted(found, reverse=True), 2):
        if number > MAX_RUNS or left < _size(path):
            _strip(path)
        left -= _size(path)
        with suppress(OSError):
            if number > MAX_RUNS and all(held.name == RECORD for held in path.iterdir()):
                (path / RECORD).unlink(missing_ok=True)
                path.rmdir()


def _strip(folder: Path) -> None:
    """Delete what jaxobs has written to a folder beside its record."""
    traces = folder / "plugins" / "profile"
    with suppress(OSError):
        for path in (*folder.iterdir(), traces):
            draft = DRAFT_NAME.fullmatch(path.name)  # of an agent that was killed
            is_trace = path == traces and path.is_dir() and not path.parent.is_symlink()
            if is_trace or draft or path.name in BESIDE or path.name.startswith(REPORT):
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink()
        traces.parent.rmdir()


def _size(path: Path) -> int:
    """Bytes of a file, or of all files in a folder; links are not followed."""
    size = 0
    with suppress(OSError):  # another process has deleted it
        for file in (path, *path.rglob("*")):
            size += file.lstat().st_size
    return size


NOT_COMPARED = frozenset({"rank_on_host", "in_kubernetes", "run_folder", "job_serves_prometheus"})
"""Entries of the plugins' settings that are facts about the process and no settings."""


class RunRecordExporter(Exporter):
    """Writes the record to the folder of the run, and makes room in the user's state directory.

    A failure is logged once, and tried again.
    """

    takes_events = False
    _agent: Agent

    def __init__(self) -> None:
        self._windows: dict[str, StepWindows] = {}
        self._last: SnapshotData | None = None
        self._began = 0.0
        self._written_at = -math.inf
        self._failed = False

    def check(self, settings: Mapping[str, Any]) -> Iterable[Remark]:
        if reason := why_not_kept(settings):
            yield Remark(_refused(reason), problem=True)
        elif directory := directory_of(settings):
            yield Remark(f"a folder for each run would be kept in {directory}")

    def start(self, agent: Agent) -> None:
        """Say now what forbids to keep the run, and not at the end. Nothing is made before anything of JAX has run."""
        settings = agent.settings
        self._agent = agent
        self.takes_batches = settings.get("run_folder") is not None
        self.awaited = bool(settings.get("run_directory"))  # else it is in a home, maybe on a slow network
        if (self.takes_batches or directory_of(settings) is None) and (reason := why_not_kept(settings)):
            self._fail(reason)

    def export(self, batch: Batch) -> None:
        """Add the snapshot to the loops' windows, and write the record when it is due."""
        self._last, settings, document = batch.snapshot, self._agent.settings, batch.snapshot.document
        for name, loop in (document.get("loops") or {}).items():
            self._windows.setdefault(name, StepWindows()).add(loop)
        is_due = monotonic() - self._written_at >= float(settings.get("run_interval") or 0.0)
        if is_due and is_kept(settings, document):
            self._written_at = monotonic()
            self._write(batch.snapshot, "running")

    def stop(self, timeout: float) -> None:  # noqa: ARG002  # one small file; the agent's own deadline holds for it
        """Write the last record: the job has ended, or was killed."""
        last, self._last = self._last, None
        if last is not None and is_kept(self._agent.settings, last.document):
            ended = last.served_no_more()
            self._write(ended, last.document["process"].get("ended") or "ended")
            with suppress(OSError, ValueError):  # it can be made from the record
                shown = page(View(ended.document, live=False))
                write_whole(make_folder(self._agent.settings) / PAGE, shown.encode())

    def _write(self, snapshot: SnapshotData, state: State) -> None:
        try:
            data, settings = encoded(self._record(snapshot, state)), self._agent.settings
            folder = make_folder(settings)
            is_new = not (folder / RECORD).exists()
            write_whole(folder / RECORD, data)
            if not settings.get("run_directory") and (is_new or state != "running"):
                _make_room(folder.parent, folder)
        except (OSError, ValueError) as error:
            self._fail(str(error))
        else:
            self._failed = False

    def _fail(self, reason: str) -> None:
        """Log why there is no record, unless nothing has been written since that was done."""
        if not self._failed:
            self._agent.log(_refused(reason))
        self._failed = True

    def _record(self, snapshot: SnapshotData, state: State) -> dict[str, Any]:
        agent, process = self._agent, snapshot.document["process"]
        if not self._began:
            self._began = agent.clock.unix_seconds(snapshot.time) - float(process["seconds"])
        return {
            "format": FORMAT,
            "version": VERSION,
            "state": state,
            "written": agent.clock.unix_seconds(now()),
            "began": self._began,
            "settings": {name: value for name, value in agent.settings.items() if name not in NOT_COMPARED},
            "environment": relevant_environment(os.environ),
            "versions": versions(process),
            "windows": {name: windows.to_dict() for name, windows in self._windows.items()},
            "snapshot": dict(snapshot.document),
        }


def _refused(reason: str) -> str:
    return (
        f"no record of the run can be written: {reason}; set JAXOBS_RUN_DIRECTORY to a writable directory, or "
        "JAXOBS_KEEP_RUNS=0"
    )
