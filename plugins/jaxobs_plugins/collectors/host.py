"""The collector `host`: what the training process uses of its host and container, and what they have left."""

from __future__ import annotations

import resource
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from jaxobs.model.events import Measured
from jaxobs.model.metrics import Metric
from jaxobs.plugin.base import Collector
from jaxobs.plugin.control_groups import Group, find_group, memory_limit, memory_used, tightest
from jaxobs.plugin.fields import Fields, Query, Sample, metrics_of
from jaxobs.plugin.protocol import Agent

PROCESS_CPU = Metric(
    "jaxobs_process_cpu_seconds_total", "counter", "Processor time of the training process, user and system",
    unit="seconds",
)  # fmt: skip
USABLE_CPUS = Metric("jaxobs_process_usable_cpus", "gauge", "Processors that the training process may run on")
RESIDENT = Metric(
    "jaxobs_process_resident_bytes", "gauge", "Physical memory of the training process", unit="bytes"
)
THREADS = Metric("jaxobs_process_threads", "gauge", "Operating-system threads of the training process")
FILES = Metric("jaxobs_process_open_files", "gauge", "File descriptors that the training process has open")
FILES_LIMIT = Metric(
    "jaxobs_process_open_files_limit", "gauge", "How many file descriptors the training process may have open"
)
PROCESS_SWITCHES = Metric(
    "jaxobs_process_context_switches_total", "counter",
    "Turns on a processor that the training process gave up (voluntary) or lost to others (involuntary)", ("kind",),
)  # fmt: skip
PROCESS_DISK = Metric(
    "jaxobs_process_disk_bytes_total", "counter",
    "What the training process caused storage to read and to write; reads from the page cache are none",
    ("direction",), "bytes",
)  # fmt: skip

SINCE_ITS_START = (PROCESS_CPU, PROCESS_SWITCHES, PROCESS_DISK)
"""Counters that the system keeps since the process began, and so belong to the job as a whole."""


def _process_cpu(process: psutil.Process) -> Iterator[Sample]:
    times = process.cpu_times()
    yield PROCESS_CPU, (), times.user + times.system


def _process_switches(process: psutil.Process) -> Iterator[Sample]:
    switches = process.num_ctx_switches()
    yield PROCESS_SWITCHES, ("voluntary",), switches.voluntary
    yield PROCESS_SWITCHES, ("involuntary",), switches.involuntary


def _process_disk(process: psutil.Process) -> Iterator[Sample]:
    counters = process.io_counters()
    yield PROCESS_DISK, ("read",), counters.read_bytes
    yield PROCESS_DISK, ("write",), counters.write_bytes


def _files_limit(process: psutil.Process) -> Iterator[Sample]:
    soft, _ = process.rlimit(resource.RLIMIT_NOFILE)
    yield FILES_LIMIT, (), None if soft == resource.RLIM_INFINITY else soft


PROCESS_QUERIES: tuple[Query[psutil.Process], ...] = (
    Query((PROCESS_CPU,), _process_cpu),
    Query((USABLE_CPUS,), lambda process: [(USABLE_CPUS, (), len(process.cpu_affinity() or ()))]),
    Query((RESIDENT,), lambda process: [(RESIDENT, (), process.memory_info().rss)]),
    Query((THREADS,), lambda process: [(THREADS, (), process.num_threads())]),
    Query((FILES,), lambda process: [(FILES, (), process.num_fds())]),
    Query((FILES_LIMIT,), _files_limit),
    Query((PROCESS_SWITCHES,), _process_switches),
    Query((PROCESS_DISK,), _process_disk),
)


HOST_CPU = Metric(
    "jaxobs_host_cpu_utilization_ratio", "gauge", "Busy share of the processors since the last reading",
    unit="ratio",
)  # fmt: skip
CPUS = Metric("jaxobs_host_cpus", "gauge", "Logical processors of the host")
HOST_MEMORY_AVAILABLE = Metric(
    "jaxobs_host_memory_available_bytes", "gauge", "Memory that the host can give without swapping", unit="bytes",
)  # fmt: skip
HOST_MEMORY_TOTAL = Metric(
    "jaxobs_host_memory_total_bytes", "gauge", "Physical memory of the host", unit="bytes"
)
SWAP = Metric("jaxobs_host_swap_used_bytes", "gauge", "Memory of the host that lies on disk", unit="bytes")
HOST_SWITCHES = Metric(
    "jaxobs_host_context_switches_total", "counter", "Context switches of the host during this run"
)
HOST_DISK = Metric(
    "jaxobs_host_disk_bytes_total", "counter", "Traffic with the host's disks during this run", ("direction",),
    "bytes",
)  # fmt: skip
HOST_NETWORK = Metric(
    "jaxobs_host_network_bytes_total", "counter",
    "Traffic of the host's network interfaces during this run, without loopback and RDMA", ("direction",), "bytes",
)  # fmt: skip


INTERFACES = Path("/sys/class/net")


@dataclass(slots=True)
class Machine:
    """The network interfaces that are counted, once they are known."""

    interfaces: list[str] | None = None


def counted_interfaces(names: list[str], interfaces: Path = INTERFACES) -> list[str]:
    """The interfaces that are hardware, so that traffic through bridges and tunnels is not counted twice.

    Where none is (in most containers), all but loopback.
    """
    hardware = [name for name in names if (interfaces / name / "device").exists()]
    return hardware or [name for name in names if name not in {"lo", "lo0"}]


def _host_memory(_: Machine) -> Iterator[Sample]:
    memory = psutil.virtual_memory()
    yield HOST_MEMORY_AVAILABLE, (), memory.available
    yield HOST_MEMORY_TOTAL, (), memory.total


def _host_disk(_: Machine) -> Iterator[Sample]:
    counters = psutil.disk_io_counters()
    if counters is None:
        raise NotImplementedError("the system shows no disk")
    yield HOST_DISK, ("read",), counters.read_bytes
    yield HOST_DISK, ("write",), counters.write_bytes


def _host_network(machine: Machine) -> Iterator[Sample]:
    counters = psutil.net_io_counters(pernic=True)
    if machine.interfaces is None:  # fixed here: a later interface would add all that it ever counted
        machine.interfaces = counted_interfaces(sorted(counters))
    counted = [counters[name] for name in machine.interfaces if name in counters]
    if not counted:
        raise NotImplementedError("the system shows no network interface but loopback")
    yield HOST_NETWORK, ("receive",), sum(interface.bytes_recv for interface in counted)
    yield HOST_NETWORK, ("transmit",), sum(interface.bytes_sent for interface in counted)


HOST_QUERIES: tuple[Query[Machine], ...] = (
    Query((HOST_CPU,), lambda _: [(HOST_CPU, (), psutil.cpu_percent() / 100)]),  # since its last call
    Query((CPUS,), lambda _: [(CPUS, (), psutil.cpu_count())]),
    Query((HOST_MEMORY_AVAILABLE, HOST_MEMORY_TOTAL), _host_memory),
    Query((SWAP,), lambda _: [(SWAP, (), psutil.swap_memory().used)]),
    Query((HOST_SWITCHES,), lambda _: [(HOST_SWITCHES, (), psutil.cpu_stats().ctx_switches)]),
    Query((HOST_DISK,), _host_disk),
    Query((HOST_NETWORK,), _host_network),
)


CGROUP_MEMORY_USED = Metric(
    "jaxobs_cgroup_memory_used_bytes", "gauge",
    "Memory of the container (control group) that the training process is in, page cache included", unit="bytes",
)  # fmt: skip
CGROUP_MEMORY_LIMIT = Metric(
    "jaxobs_cgroup_memory_limit_bytes", "gauge",
    "Memory beyond which the container is out of memory; absent without a limit", unit="bytes",
)  # fmt: skip
CGROUP_CPU_LIMIT = Metric(
    "jaxobs_cgroup_cpu_limit_cpus", "gauge",
    "Processors' worth of time the container may use; absent without a limit", unit="cpus",
)  # fmt: skip
CGROUP_PERIODS = Metric(
    "jaxobs_cgroup_cpu_periods_total", "counter", "Periods of the processor limit in which the container ran"
)
CGROUP_THROTTLED_PERIODS = Metric(
    "jaxobs_cgroup_cpu_throttled_periods_total", "counter",
    "Periods in which the container had used up its processor time",
)  # fmt: skip
CGROUP_THROTTLED = Metric(
    "jaxobs_cgroup_cpu_throttled_seconds_total", "counter",
    "Time that processors of the container were held back, summed over processors", unit="seconds",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cgroup:
    """A process's control groups in the two controllers that matter here."""

    memory: Group
    cpu: Group


def find_cgroup(pid: int, proc: Path = Path("/proc")) -> Cgroup:
    """The control groups of a process. Raises what `find_group` raises."""
    return Cgroup(find_group("memory", pid, proc), find_group("cpu", pid, proc))


def _cgroup_memory(cgroup: Cgroup) -> Iterator[Sample]:
    folder, limit = memory_limit(cgroup.memory)
    yield CGROUP_MEMORY_LIMIT, (), limit
    yield CGROUP_MEMORY_USED, (), memory_used(cgroup.memory, folder)


def _cgroup_cpu_limits(group: Group) -> list[tuple[Path, float | None]]:
    limits: list[tuple[Path, float | None]] = []
    for folder in group.folders:
        if group.version == 2 and (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text(encoding="ascii").split()
        elif group.version == 1 and (folder / "cpu.cfs_quota_us").exists():
            quota = (folder / "cpu.cfs_quota_us").read_text(encoding="ascii").strip()
            period = (folder / "cpu.cfs_period_us").read_text(encoding="ascii").strip()
        else:
            continue
        limits.append((folder, None if quota in {"max", "-1"} else int(quota) / int(period)))
    return limits


def _cgroup_cpu_limit(cgroup: Cgroup) -> Iterator[Sample]:
    yield CGROUP_CPU_LIMIT, (), tightest(_cgroup_cpu_limits(cgroup.cpu))[1]


def _cgroup_throttling(cgroup: Cgroup) -> Iterator[Sample]:
    folder, _ = tightest(_cgroup_cpu_limits(cgroup.cpu))
    pairs = (line.split() for line in (folder / "cpu.stat").read_text(encoding="ascii").splitlines())
    stat = {name: int(value) for name, value in pairs}
    yield CGROUP_PERIODS, (), stat["nr_periods"]
    yield CGROUP_THROTTLED_PERIODS, (), stat["nr_throttled"]
    yield (
        CGROUP_THROTTLED,
        (),
        stat["throttled_usec"] / 1e6 if cgroup.cpu.version == 2 else stat["throttled_time"] / 1e9,
    )


CGROUP_QUERIES: tuple[Query[Cgroup], ...] = (
    Query((CGROUP_MEMORY_USED, CGROUP_MEMORY_LIMIT), _cgroup_memory),
    Query((CGROUP_CPU_LIMIT,), _cgroup_cpu_limit),
    Query((CGROUP_PERIODS, CGROUP_THROTTLED_PERIODS, CGROUP_THROTTLED), _cgroup_throttling),
)


_UNSUPPORTED = (AttributeError, FileNotFoundError, NotImplementedError, LookupError, psutil.AccessDenied)
"""Errors of a platform that has no such figure, or does not let us read it."""


class HostCollector(Collector):
    """Measures the host. A value that the system does not provide is absent without affecting others.

    `proc` is the path of /proc.
    """

    metrics = metrics_of((*PROCESS_QUERIES, *HOST_QUERIES, *CGROUP_QUERIES))
    interval = 5.0

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._process: psutil.Process | None = None
        self._others: list[tuple[Any, Fields[Any]]] = []
        self._process_fields = Fields(
            PROCESS_QUERIES,
            whole=SINCE_ITS_START,
            unsupported=_UNSUPPORTED,
            passed_on=(psutil.NoSuchProcess,),
        )

    def start(self, agent: Agent) -> None:
        """Find the process, which psutil identifies by its id and start time, so that a reused id is not mistaken."""
        pid = int(agent.resource["process.pid"])
        self._process = psutil.Process(pid)
        host, fields = Machine(), Fields(HOST_QUERIES, unsupported=_UNSUPPORTED)
        fields.collect(host)  # the baseline of values that are differences
        self._others = [(host, fields)]
        with suppress(OSError, LookupError, ValueError):  # no control groups, or they are not mounted here
            group = find_cgroup(pid, self._proc)
            self._others.append((group, Fields(CGROUP_QUERIES, unsupported=_UNSUPPORTED)))

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
