"""The collector `host`: queries process, machine and control group, each value separately."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

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
        self._machine: machine.Machine | None = None
        self._cgroup: cgroup.Cgroup | None = None
        self._process_fields = Fields(
            process.QUERIES,
            whole=process.WHOLE,
            unsupported=_UNSUPPORTED,
            passed_on=(psutil.NoSuchProcess,),
        )
        self._machine_fields = Fields(machine.QUERIES, unsupported=_UNSUPPORTED)
        self._cgroup_fields = Fields(cgroup.QUERIES, unsupported=_UNSUPPORTED)

    def start(self, agent: Agent) -> None:
        """Find the process, which psutil identifies by its id and start time, so that a reused id is not mistaken."""
        pid = int(agent.resource["process.pid"])
        self._process = psutil.Process(pid)
        self._machine = machine.Machine()
        self._machine_fields.collect(self._machine)  # the baseline of values that are differences
        with suppress(OSError, LookupError, ValueError):  # no control groups, or they are not mounted here
            self._cgroup = cgroup.find_cgroup(pid, self._proc)

    def collect(self) -> Iterable[Measured]:
        measured = self._of_process()
        if self._machine is not None:
            measured += self._machine_fields.collect(self._machine)
        if self._cgroup is not None:
            measured += self._cgroup_fields.collect(self._cgroup)
        return measured

    def stop(self) -> None:
        self._process = self._machine = self._cgroup = None

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
