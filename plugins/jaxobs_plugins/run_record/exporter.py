"""Writes a record of the run to a directory, every few minutes and when the job ends or is killed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jaxobs.model.clock import NANOSECONDS, monotonic, now, seconds
from jaxobs.model.snapshot import SnapshotData
from jaxobs.plugin.base import Exporter
from jaxobs.plugin.files import write_whole, writing_remarks
from jaxobs.plugin.protocol import Agent, Batch, Remark
from jaxobs.report.record import FORMAT, VERSION, State, encoded
from jaxobs.report.step_windows import StepWindows
from jaxobs_plugins.run_record.host_load import HostLoad
from jaxobs_plugins.run_record.surroundings import relevant_environment, versions

NOT_COMPARED = frozenset({"rank_on_host", "in_kubernetes"})
"""Entries of the plugins' settings that are facts about the process and no settings."""


class RunRecordExporter(Exporter):
    """Writes the record if the setting `run_directory` is given. A failure is logged once, and tried again."""

    takes_events = False

    def __init__(self) -> None:
        self._agent: Agent | None = None
        self._directory = Path()
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
        """Note the directory, which is made with the first record."""
        directory = agent.settings.get("run_directory")
        self.takes_batches = bool(directory)
        if directory:
            self._directory, self._agent = Path(directory), agent
            self._interval = float(agent.settings.get("run_interval") or 0.0)
            self._written_at = monotonic()

    def export(self, batch: Batch) -> None:
        """Add the snapshot to the loops' windows and the host's load, and write the record when it is due."""
        if self._agent is None:
            return
        self._last = batch.snapshot
        self._load.read(batch.snapshot)
        for name, loop in (batch.snapshot.document.get("loops") or {}).items():
            self._windows.setdefault(name, StepWindows()).add(seconds(batch.snapshot.time), loop)
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
        try:
            data = encoded(self._record(snapshot, agent, state))
            self._directory.mkdir(exist_ok=True)  # without its parents: a mistyped path must not be created
            write_whole(self._directory / self._file_name(snapshot, agent), data)
        except (OSError, ValueError) as error:
            problem = _refused(str(error))
            if problem != self._said:
                agent.log(problem)
            self._said = problem
        else:
            self._said = None

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
            process = snapshot.document["process"]
            rank = process.get("process_index")
            if rank is None:
                rank = agent.resource.get("jax.process_index")
            start = datetime.fromtimestamp(self._began, UTC).strftime("%Y%m%dT%H%M%SZ")
            words = [
                re.sub(r"[^\w.-]+", "-", process.get("run") or ""),
                f"attempt{process['attempt']}" if process.get("attempt") is not None else "",
                f"rank{rank}" if rank is not None else f"process{process.get('pid')}",
                start,
                agent.resource.get("service.instance.id", "")[:8],  # jobs may begin in the same second
            ]
            self._name = "-".join(filter(None, words)) + ".json"
        return self._name


def _anything_ran(document: Mapping[str, Any]) -> bool:
    process = document.get("process") or {}
    return bool(process.get("platform") or document.get("loops"))


def _refused(reason: str) -> str:
    return f"no record of the run can be written: {reason}; set JAXOBS_RUN_DIRECTORY to a writable directory"
