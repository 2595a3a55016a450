"""Metrics of the host as a whole, with all its jobs and containers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil

from jaxobs.model.metrics import Metric
from jaxobs.plugin.fields import Query, Sample

CPU = Metric(
    "jaxobs_host_cpu_utilization_ratio", "gauge", "Busy share of the processors since the last reading",
    unit="ratio",
)  # fmt: skip
CPUS = Metric("jaxobs_host_cpus", "gauge", "Logical processors of the host")
AVAILABLE = Metric(
    "jaxobs_host_memory_available_bytes", "gauge", "Memory that the host can give without swapping", unit="bytes"
)  # fmt: skip
TOTAL = Metric("jaxobs_host_memory_total_bytes", "gauge", "Physical memory of the host", unit="bytes")
SWAP = Metric("jaxobs_host_swap_used_bytes", "gauge", "Memory of the host that lies on disk", unit="bytes")
SWITCHES = Metric(
    "jaxobs_host_context_switches_total", "counter", "Context switches of the host during this run"
)
DISK = Metric(
    "jaxobs_host_disk_bytes_total", "counter", "Traffic with the host's disks during this run", ("direction",),
    "bytes",
)  # fmt: skip
NETWORK = Metric(
    "jaxobs_host_network_bytes_total", "counter",
    "Traffic of the host's network interfaces during this run, without loopback and RDMA", ("direction",), "bytes",
)  # fmt: skip


INTERFACES = Path("/sys/class/net")


class Machine:
    """The state kept between two readings. Its constructor reads nothing from the system, since that may fail."""

    def __init__(self) -> None:
        self.interfaces: list[str] | None = None
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


def counted_interfaces(names: list[str], interfaces: Path = INTERFACES) -> list[str]:
    """The interfaces that are hardware, so that traffic through bridges and tunnels is not counted twice.

    Where none is (in most containers), all but loopback.
    """
    hardware = [name for name in names if (interfaces / name / "device").exists()]
    return hardware or [name for name in names if name not in {"lo", "lo0"}]


def _processor_seconds() -> tuple[float, float]:
    """Busy and total processor seconds since boot. Waiting for a disk counts as idle; user time includes guests'."""
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    return total - idle, total


def _memory(_: Machine) -> Iterator[Sample]:
    memory = psutil.virtual_memory()
    yield AVAILABLE, (), memory.available
    yield TOTAL, (), memory.total


def _disk(_: Machine) -> Iterator[Sample]:
    counters = psutil.disk_io_counters()
    if counters is None:
        raise NotImplementedError("the system shows no disk")
    yield DISK, ("read",), counters.read_bytes
    yield DISK, ("write",), counters.write_bytes


def _network(machine: Machine) -> Iterator[Sample]:
    counters = psutil.net_io_counters(pernic=True)
    if machine.interfaces is None:  # fixed here: a later interface would add all that it ever counted
        machine.interfaces = counted_interfaces(sorted(counters))
    counted = [counters[name] for name in machine.interfaces if name in counters]
    if not counted:
        raise NotImplementedError("the system shows no network interface but loopback")
    yield NETWORK, ("receive",), sum(interface.bytes_recv for interface in counted)
    yield NETWORK, ("transmit",), sum(interface.bytes_sent for interface in counted)


QUERIES: tuple[Query[Machine], ...] = (
    Query((CPU,), lambda machine: [(CPU, (), machine.busy_share())]),
    Query((CPUS,), lambda _: [(CPUS, (), psutil.cpu_count())]),
    Query((AVAILABLE, TOTAL), _memory),
    Query((SWAP,), lambda _: [(SWAP, (), psutil.swap_memory().used)]),
    Query((SWITCHES,), lambda _: [(SWITCHES, (), psutil.cpu_stats().ctx_switches)]),
    Query((DISK,), _disk),
    Query((NETWORK,), _network),
)
