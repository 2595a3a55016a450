"""Metrics of the training process from the system's accounting, without its children."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from typing import TYPE_CHECKING

from jaxobs.model.metrics import Metric
from jaxobs.plugin.fields import Query, Sample

if TYPE_CHECKING:
    import psutil

CPU = Metric(
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
SWITCHES = Metric(
    "jaxobs_process_context_switches_total", "counter",
    "Turns on a processor that the training process gave up (voluntary) or lost to others (involuntary)", ("kind",),
)  # fmt: skip
DISK = Metric(
    "jaxobs_process_disk_bytes_total", "counter",
    "What the training process caused storage to read and to write; reads from the page cache are none",
    ("direction",), "bytes",
)  # fmt: skip

WHOLE = (CPU, SWITCHES, DISK)
"""Counters that the system keeps since the process began, and so belong to the job as a whole."""


def _cpu(process: psutil.Process) -> Iterator[Sample]:
    times = process.cpu_times()
    yield CPU, (), times.user + times.system


def _switches(process: psutil.Process) -> Iterator[Sample]:
    switches = process.num_ctx_switches()
    yield SWITCHES, ("voluntary",), switches.voluntary
    yield SWITCHES, ("involuntary",), switches.involuntary


def _disk(process: psutil.Process) -> Iterator[Sample]:
    counters = process.io_counters()
    yield DISK, ("read",), counters.read_bytes
    yield DISK, ("write",), counters.write_bytes


def _files_limit(process: psutil.Process) -> Iterator[Sample]:
    soft, _ = process.rlimit(resource.RLIMIT_NOFILE)
    yield FILES_LIMIT, (), None if soft == resource.RLIM_INFINITY else soft


QUERIES: tuple[Query[psutil.Process], ...] = (
    Query((CPU,), _cpu),
    Query((USABLE_CPUS,), lambda process: [(USABLE_CPUS, (), len(process.cpu_affinity() or ()))]),
    Query((RESIDENT,), lambda process: [(RESIDENT, (), process.memory_info().rss)]),
    Query((THREADS,), lambda process: [(THREADS, (), process.num_threads())]),
    Query((FILES,), lambda process: [(FILES, (), process.num_fds())]),
    Query((FILES_LIMIT,), _files_limit),
    Query((SWITCHES,), _switches),
    Query((DISK,), _disk),
)
