"""The collector `host`: queries process, machine and control group, each value separately."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from jaxobs.model.events import Measured
from jaxobs.plugin.base import Collector
from jaxobs.plugin.fields import Fields, metrics_of
from jaxobs.plugin.protocol import Agent
from jaxobs_plugins.collectors.host import cgroup, machine, process

_UNSUPPORTED = (AttributeError, FileNotFoundError, NotImplementedError, LookupError, psutil.AccessDenied)
"""Errors of a platform that has no such figure, or does not let us read it."""


class HostCollector(Collector):
    """Measures the host. A value that the system does not provide is absent without affecting others.

    `proc` is the path of /proc.
    """

    metrics = metrics_of((*process.QUERIES, *machine.QUERIES, *cgroup.QUERIES))
    interval = 5.0

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._process: psutil.Process | None = None
        self._others: list[tuple[Any, Fields[Any]]] = []
        self._process_fields = Fields(
            process.QUERIES,
            whole=process.WHOLE,
            unsupported=_UNSUPPORTED,
            passed_on=(psutil.NoSuchProcess,),
        )

    def start(self, agent: Agent) -> None:
        """Find the process, which psutil identifies by its id and start time, so that a reused id is not mistaken."""
        pid = int(agent.resource["process.pid"])
        self._process = psutil.Process(pid)
        host, fields = machine.Machine(), Fields(machine.QUERIES, unsupported=_UNSUPPORTED)
        fields.collect(host)  # the baseline of values that are differences
        self._others = [(host, fields)]
        with suppress(OSError, LookupError, ValueError):  # no control groups, or they are not mounted here
            group = cgroup.find_cgroup(pid, self._proc)
            self._others.append((group, Fields(cgroup.QUERIES, unsupported=_UNSUPPORTED)))

    def collect(self) -> Iterable[Measured]:
        measured = self._of_process()
        for subject, fields in self._others:
            measured += fields.collect(subject)
        return measured

    def stop(self) -> None:
        self._process, self._others = None, []

    def _of_process(self) -> list[Measured]:
        if self._process is None:
            return []
        try:
            if self._process.is_running():
                with self._process.oneshot():  # one reading of each file of /proc
                    return self._process_fields.collect(self._process)
        except psutil.NoSuchProcess:  # it ended meanwhile
            pass
        return self._process_fields.withdraw()
