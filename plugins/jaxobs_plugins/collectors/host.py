"""The collector `host`: what the training process uses of its host and container, and what they have left."""

from __future__ import annotations

import resource
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import psutil

from jaxobs.hardware.control_groups import Group, cpu_limit, find_group, memory_limit, memory_used
from jaxobs.model.events import Measured
from jaxobs.model.metrics import metric
from jaxobs.plugin.base import Collector
from jaxobs.plugin.fields import Fields, Query, Sample, metrics_of
from jaxobs.plugin.protocol import Agent

PROCESS_CPU = metric(
    "jaxobs_process_cpu_seconds_total", "Processor time of the training process, user and system"
)
USABLE_CPUS = metric("jaxobs_process_usable_cpus", "Processors that the training process may run on")
RESIDENT = metric("jaxobs_process_resident_bytes", "Physical memory of the training process")
THREADS = metric("jaxobs_process_threads", "Operating-system threads of the training process")
FILES = metric("jaxobs_process_open_files", "File descriptors that the training process has open")
FILES_LIMIT = metric(
    "jaxobs_process_open_files_limit", "How many file descriptors the training process may have open"
)
PROCESS_DISK = metric(
    "jaxobs_process_disk_bytes_total{direction}",
    "What the training process caused storage to read and to write, without the page cache",
)

SINCE_ITS_START = (PROCESS_CPU, PROCESS_DISK)
"""Counters that the system keeps since the process began, and so belong to the job as a whole."""


def _process_cpu(process: psutil.Process) -> Iterator[Sample]:
    times = process.cpu_times()
    yield PROCESS_CPU, (), times.user + times.system


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
    Query((PROCESS_DISK,), _process_disk),
)


HOST_CPU = metric("jaxobs_host_cpu_utilization_ratio", "Busy share of the processors since the last reading")
CPUS = metric("jaxobs_host_cpus", "Logical processors of the host")
HOST_MEMORY_AVAILABLE = metric(
    "jaxobs_host_memory_available_bytes", "Memory that the host can give without swapping"
)
HOST_MEMORY_TOTAL = metric("jaxobs_host_memory_total_bytes", "Physical memory of the host")
SWAP = metric("jaxobs_host_swap_used_bytes", "Memory of the host that lies on disk")
HOST_DISK = metric("jaxobs_host_disk_bytes_total{direction}", "Traffic with the host's disks during this run")
HOST_NETWORK = metric(
    "jaxobs_host_network_bytes_total{direction}",
    "Traffic of the host's network interfaces during this run, without loopback and RDMA",
)


INTERFACES = Path("/sys/class/net")
DISKS = Path("/sys/block")


class Machine:
    """The state kept between two readings. Its constructor reads nothing from the system, since that may fail."""

    def __init__(self) -> None:
        self._counted: dict[Path, list[str]] = {}
        self._before: tuple[float, float] | None = None
        self._share: float | None = None

    def busy_share(self) -> float | None:
        """The busy share of all processors since the last call, from 0 to 1; unchanged where the clock stood still."""
        after = _processor_seconds()
        before, self._before = self._before or after, after
        busy, total = after[0] - before[0], after[1] - before[1]
        if total > 0:
            self._share = min(1.0, max(0.0, busy / total))
        return self._share

    def counted(self, counters: Mapping[str, Any], folder: Path) -> list[Any]:
        """The counters of what is hardware by the system's folder; fixed at the first look.

        A later one would add all that it ever counted. Raises NotImplementedError where there is none.
        """
        names = self._counted.setdefault(folder, of_hardware(counters, folder))
        if found := [counters[name] for name in names if name in counters]:
            return found
        raise NotImplementedError(f"{folder} shows nothing that is counted")


def of_hardware(names: Iterable[str], folder: Path) -> list[str]:
    """The interfaces or disks that are hardware, so that nothing is counted twice.

    Traffic through bridges and tunnels passes an interface beneath, that through RAID, LVM, encryption and loops a disk.
    Where none is hardware (as in most containers), all are named.
    """
    every = sorted(names)
    return [name for name in every if (folder / name.replace("/", "!") / "device").exists()] or every


def _processor_seconds() -> tuple[float, float]:
    """Busy and total processor seconds since boot. Waiting for a disk counts as idle; user time includes guests'."""
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    return total - idle, total


def _host_memory(_: Machine) -> Iterator[Sample]:
    memory = psutil.virtual_memory()
    yield HOST_MEMORY_AVAILABLE, (), memory.available
    yield HOST_MEMORY_TOTAL, (), memory.total


def _host_disk(machine: Machine) -> Iterator[Sample]:
    every = psutil.disk_io_counters(perdisk=True)
    disks = machine.counted({name: each for name, each in every.items() if is_disk(name)}, DISKS)
    yield HOST_DISK, ("read",), sum(disk.read_bytes for disk in disks)
    yield HOST_DISK, ("write",), sum(disk.write_bytes for disk in disks)


def is_disk(name: str, folder: Path = DISKS) -> bool:
    """Whether it is no partition, which has no folder of its own there, and neither memory nor a file."""
    return (folder / name.replace("/", "!")).exists() and not name.startswith(("loop", "ram", "zram"))


def _host_network(machine: Machine) -> Iterator[Sample]:
    every = psutil.net_io_counters(pernic=True)
    interfaces = machine.counted(
        {name: each for name, each in every.items() if name not in {"lo", "lo0"}}, INTERFACES
    )
    yield HOST_NETWORK, ("receive",), sum(interface.bytes_recv for interface in interfaces)
    yield HOST_NETWORK, ("transmit",), sum(interface.bytes_sent for interface in interfaces)


HOST_QUERIES: tuple[Query[Machine], ...] = (
    Query((HOST_CPU,), lambda machine: [(HOST_CPU, (), machine.busy_share())]),
    Query((CPUS,), lambda _: [(CPUS, (), psutil.cpu_count())]),
    Query((HOST_MEMORY_AVAILABLE, HOST_MEMORY_TOTAL), _host_memory),
    Query((SWAP,), lambda _: [(SWAP, (), psutil.swap_memory().used)]),
    Query((HOST_DISK,), _host_disk),
    Query((HOST_NETWORK,), _host_network),
)


CGROUP_MEMORY_USED = metric("jaxobs_cgroup_memory_used_bytes", "Memory of the container, page cache included")
CGROUP_MEMORY_LIMIT = metric(
    "jaxobs_cgroup_memory_limit_bytes",
    "Memory beyond which the container is out of memory; absent without a limit",
)
CGROUP_CPU_LIMIT = metric(
    "jaxobs_cgroup_cpu_limit_cpus", "Processors' worth of time the container may use; absent without a limit"
)
CGROUP_PERIODS = metric(
    "jaxobs_cgroup_cpu_periods_total", "Periods of the processor limit in which the container ran"
)
CGROUP_THROTTLED_PERIODS = metric(
    "jaxobs_cgroup_cpu_throttled_periods_total",
    "Periods in which the container had used up its processor time",
)
CGROUP_THROTTLED = metric(
    "jaxobs_cgroup_cpu_throttled_seconds_total",
    "Time that processors of the container were held back, summed over processors",
)


def _cgroup_memory(group: Group) -> Iterator[Sample]:
    folder, limit = memory_limit(group)
    yield CGROUP_MEMORY_LIMIT, (), limit
    yield CGROUP_MEMORY_USED, (), memory_used(group, folder)


def _cgroup_throttling(group: Group) -> Iterator[Sample]:
    folder, _ = cpu_limit(group)
    pairs = (line.split() for line in (folder / "cpu.stat").read_text(encoding="ascii").splitlines())
    stat = {name: int(value) for name, value in pairs}
    yield CGROUP_PERIODS, (), stat["nr_periods"]
    yield CGROUP_THROTTLED_PERIODS, (), stat["nr_throttled"]
    nanoseconds = stat["throttled_usec"] * 1000 if group.version == 2 else stat["throttled_time"]
    yield CGROUP_THROTTLED, (), nanoseconds / 1e9


CGROUP_QUERIES: dict[str, tuple[Query[Group], ...]] = {
    "memory": (Query((CGROUP_MEMORY_USED, CGROUP_MEMORY_LIMIT), _cgroup_memory),),
    "cpu": (
        Query((CGROUP_CPU_LIMIT,), lambda group: [(CGROUP_CPU_LIMIT, (), cpu_limit(group)[1])]),
        Query((CGROUP_PERIODS, CGROUP_THROTTLED_PERIODS, CGROUP_THROTTLED), _cgroup_throttling),
    ),
}
"""By the controller whose group is asked."""


_UNSUPPORTED = (AttributeError, FileNotFoundError, NotImplementedError, LookupError, psutil.AccessDenied)
"""Errors of a platform that has no such figure, or does not let us read it."""


class HostCollector(Collector):
    """Measures the host. A value that the system does not provide is absent without affecting others.

    `proc` is the path of /proc.
    """

    metrics = metrics_of((*PROCESS_QUERIES, *HOST_QUERIES, *chain(*CGROUP_QUERIES.values())))
    interval = 5.0

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._subjects: list[tuple[Any, Fields[Any]]] = []

    def start(self, agent: Agent) -> None:
        pid = int(agent.resource["process.pid"])
        process = Fields(PROCESS_QUERIES, whole=SINCE_ITS_START, unsupported=_UNSUPPORTED)
        host, fields = Machine(), Fields(HOST_QUERIES, unsupported=_UNSUPPORTED)
        fields.collect(host)  # the baseline of values that are differences
        self._subjects = [(psutil.Process(pid), process), (host, fields)]
        for controller, queries in CGROUP_QUERIES.items():
            # Perhaps there are no control groups, or they are not mounted here.
            with suppress(OSError, LookupError, ValueError):
                group = find_group(controller, pid, self._proc)
                self._subjects.append((group, Fields(queries, unsupported=_UNSUPPORTED)))

    def collect(self) -> Iterable[Measured]:
        return [value for subject, fields in self._subjects for value in fields.collect(subject)]

    def stop(self) -> None:
        self._subjects = []
