"""Collector `tpu`: reads the TPU chips of this host from libtpu's monitoring library (`libtpu.sdk.tpumonitoring`).

The library is a client that works from another process than the job's and takes no TPU from it. Google's page "TPU
Monitoring Library" (cloud.google.com/tpu/docs/tpu-monitoring-library) says so, and tpu-info
(AI-Hypercomputer/cloud-accelerator-diagnostics) uses it so; libtpu 0.0.52, watched under strace on a host without a
TPU, opened no device (neither /dev/accel* nor /dev/vfio) and took no lock file. It queries services on this host: for
duty cycle, memory and queues the one that libtpu runs in the job at port 8431 (TPU_RUNTIME_METRICS_PORTS), for the rest
one of the host's at port 8353; where none answers, its lists are empty. Also seen there: before its first answer it
queries the metadata server of Google Cloud, for two minutes where there is none; it writes to standard error; and it
takes 87 MB of memory in the agent, most of them the library itself, which the job maps as well.

This collector has been run with libtpu 0.0.52 on a stand-in for the service at port 8431, and never with a TPU.

The label `device` is JAX's local ordinal, empty where it is unknown, and `chip` the index among the chips of the host.

Names, formats and units are those of `get_metric(name).description()` in libtpu 0.0.52: lists of strings, one for each
chip, core or link of the host; percent, bytes, and scores from 0 to 10.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from jaxobs.model import hardware_forms as hw
from jaxobs.model.events import Measured
from jaxobs.model.metrics import DeviceReading, Metric, metric
from jaxobs.plugin.fields import DeviceCollector, Fields, Query, Sample, metrics_of
from jaxobs.plugin.protocol import Agent


def _of_chip(form: hw.HardwareForm) -> hw.HardwareForm:
    """The conventions name no accelerators but GPUs; a chip is told by its index on the host."""
    return replace(form, labels={"chip": "hw.id"})


DUTY_CYCLE = metric(
    "jaxobs_tpu_duty_cycle_ratio{device,chip}",
    "Share of the last sample period in which the chip executed", hardware=_of_chip(hw.UTILIZATION),
)  # fmt: skip
BANDWIDTH = metric(
    "jaxobs_tpu_memory_bandwidth_ratio{device,chip}",
    "Share of the bandwidth of device memory in use, as the host reports it",
)
MEMORY_TOTAL = metric(
    "jaxobs_tpu_memory_total_bytes{device,chip}", "Device memory", hardware=_of_chip(hw.MEMORY_LIMIT)
)
MEMORY_USED = metric(
    "jaxobs_tpu_memory_used_bytes{device,chip}", "Device memory allocated", hardware=_of_chip(hw.MEMORY_USAGE)
)
TENSORCORE = metric(
    "jaxobs_tpu_tensorcore_utilization_ratio{device,core}", "Share of the TensorCore's capability in use"
)
THROTTLED = metric(
    "jaxobs_tpu_throttled_ratio{device,chip}", "Share by which the chip is slowed down, in steps of a tenth"
)
QUEUED = metric("jaxobs_tpu_queued_programs{core}", "Programs that wait to be run on a core")
LINK_HEALTH = metric(
    "jaxobs_tpu_link_health{link}",
    "Of a link between chips: 0 healthy, 1 to 5 a passing problem, 6 to 9 a lasting minor one, 10 not usable",
)

READINGS = (DeviceReading("utilization", DUTY_CYCLE), DeviceReading("slowdown", THROTTLED))


@dataclass(frozen=True, slots=True)
class Monitoring:
    """The module `libtpu.sdk.tpumonitoring`, its metrics, and the number of JAX's local devices (None: unknown)."""

    library: Any
    supported: frozenset[str]
    devices: int | None

    def values(self, name: str) -> Sequence[str]:
        """The values of a metric. Raises NotImplementedError for one that this libtpu lacks."""
        if name not in self.supported:
            raise NotImplementedError(f"this libtpu has no {name}")
        return [str(value) for value in self.library.get_metric(name).data()]

    def ordinal(self, place: int, of: int) -> str:
        """JAX's ordinal of entry `place` in a list of `of`; empty unless it lists this process's devices alone."""
        return str(place) if of == self.devices else ""


def _listed(metric: Metric, name: str, scale: float = 1.0) -> Query[Monitoring]:
    """A query of a list of plain numbers, one for each chip or core."""

    def read(monitoring: Monitoring) -> Iterator[Sample]:
        values = monitoring.values(name)
        for place, value in enumerate(values):
            yield metric, (monitoring.ordinal(place, len(values)), str(place)), float(value) * scale

    return Query((metric,), read)


def _named(metric: Metric, name: str) -> Query[Monitoring]:
    """A query of a list of entries `name: number`."""

    def read(monitoring: Monitoring) -> Iterator[Sample]:
        for entry in monitoring.values(name):
            label, _, value = entry.rpartition(":")
            yield metric, (label.strip(),), float(value)

    return Query((metric,), read)


def _throttled(monitoring: Monitoring) -> Iterable[Sample]:
    values = monitoring.values("tpu_throttle_score")
    for entry in values:
        chip, _, score = entry.rpartition("-")
        place = int(chip)
        ordinal = monitoring.ordinal(place, len(values)) if place < len(values) else ""
        yield THROTTLED, (ordinal, chip), float(score) / 10


QUERIES: tuple[Query[Monitoring], ...] = (
    _listed(DUTY_CYCLE, "duty_cycle_pct", 0.01),
    _listed(BANDWIDTH, "hbm_util", 0.01),
    _listed(MEMORY_TOTAL, "hbm_capacity_total"),
    _listed(MEMORY_USED, "hbm_capacity_usage"),
    _listed(TENSORCORE, "tensorcore_util", 0.01),
    Query((THROTTLED,), _throttled),
    _named(QUEUED, "hlo_queue_size"),
    _named(LINK_HEALTH, "ici_link_health"),
)


TRIAL_SECONDS = 8.0
"""Seconds after which a trial is taken to hang; the first query takes about 0.2 s."""

_TRIAL = (
    "import sys; sys.path[:] = sys.argv[1:]; from libtpu.sdk import tpumonitoring; "
    "tpumonitoring.list_supported_metrics(); tpumonitoring.get_metric('duty_cycle_pct').data()"
)
QUIET = {"TPU_SKIP_MDS_QUERY": "1", "TPU_LOG_DIR": "disabled"}
"""Variables that keep libtpu from writing log files, and from asking Google Cloud's metadata server who this host is:
it tries each of several requests 30 times, two minutes where there is no server, and
the metrics do not depend on it."""


class TpuCollector(DeviceCollector):
    """Reads TPUs. Without libtpu, or without a TPU that the job uses, it measures nothing, and `reason` says why."""

    metrics = metrics_of(QUERIES)
    device_readings = READINGS
    platforms = frozenset({"tpu"})
    device = "TPU"

    def start(self, agent: Agent) -> None:
        """Check whether libtpu is installed; it is imported only once JAX is known to use a TPU."""
        if importlib.util.find_spec("libtpu") is None:
            self.reason = "libtpu is not installed"
        else:
            super().start(agent)

    def collect(self) -> Iterable[Measured]:
        values = list(super().collect())
        if self._readers:
            self.reason = "" if values else (
                "libtpu tells nothing: the service that it asks runs in the job, at TPU_RUNTIME_METRICS_PORTS (8431)"
            )  # fmt: skip
        return values

    def stop(self) -> None:
        self._agent = self._readers = None

    def opened(self, agent: Agent) -> list[Callable[[], list[Measured]]]:
        """Try and import the library. Logs one line where it cannot be used."""
        self.reason = _trial()
        if not self.reason:
            os.environ.update({name: value for name, value in QUIET.items() if name not in os.environ})
            try:
                library = importlib.import_module("libtpu.sdk").tpumonitoring
                supported = frozenset(library.list_supported_metrics())
            except Exception as error:  # noqa: BLE001  # an import may raise anything
                self.reason = f"libtpu.sdk cannot be used ({type(error).__name__}: {error})"
            else:
                ids = agent.resource.get("jax.local_hardware_ids")
                devices = None if ids is None else len(ids.split(","))
                return [partial(Fields(QUERIES).collect, Monitoring(library, supported, devices))]
        agent.log(f"no metrics of TPUs: {self.reason}")
        return []


def _trial() -> str:
    """Why the library cannot be used; empty if it answers. Tried in a separate process, since it may crash or hang."""
    command: list[Any] = [sys.executable, "-c", _TRIAL, *sys.path]
    try:
        done = subprocess.run(
            command,
            timeout=TRIAL_SECONDS,
            check=False,
            capture_output=True,
            errors="replace",
            env={**QUIET, **os.environ},
        )
    except subprocess.TimeoutExpired:
        return f"libtpu.sdk gave no answer within {TRIAL_SECONDS:.0f} s"
    except OSError as error:
        return f"libtpu.sdk could not be tried in a process of its own: {error}"
    if done.returncode < 0:
        return f"libtpu.sdk crashes in this Python (signal {-done.returncode}): upgrade libtpu"
    if done.returncode == 0:
        return ""
    said = [line for line in done.stderr.splitlines() if line.strip()]
    return f"libtpu.sdk cannot be used: {said[-1] if said else 'it said nothing'}"
