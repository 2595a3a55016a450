"""The collector `tpu`: queries libtpu's monitoring library once the job has a TPU, if a trial of it succeeds."""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jaxobs.model.events import Measured
from jaxobs.plugin.base import Collector
from jaxobs.plugin.fields import Fields, metrics_of
from jaxobs.plugin.protocol import Agent
from jaxobs_plugins.collectors.tpu.queries import QUERIES, READINGS, Monitoring

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


class TpuCollector(Collector):
    """Reads TPUs. Without libtpu, or without a TPU that the job uses, it measures nothing, and `reason` says why."""

    metrics = metrics_of(QUERIES)
    device_readings = READINGS
    interval = 5.0

    def __init__(self, pid: Callable[[], int] = os.getpid) -> None:
        self.reason = "not started"
        self._pid = pid
        self._agent: Agent | None = None
        self._monitoring: Monitoring | None = None
        self._tried = False
        self._fields = Fields(QUERIES)

    def start(self, agent: Agent) -> None:
        """Check whether libtpu is installed; it is imported only once JAX is known to use a TPU."""
        if importlib.util.find_spec("libtpu") is None:
            self.reason = "libtpu is not installed"
        elif agent.resource.get("process.pid") == str(self._pid()):
            self.reason = "the agent is a thread of the job, where libtpu would write to the job's console"
        else:
            self.reason = "JAX has made no backend yet"
            self._agent = agent

    def collect(self) -> Iterable[Measured]:
        agent = self._agent
        platform = None if agent is None else agent.resource.get("jax.platform")
        if agent is None or platform is None:
            return []
        if platform != "tpu":
            self.reason = "JAX uses no TPU"
            return self._fields.withdraw()
        if not self._tried:
            self._tried = True
            self._open(agent)
        if self._monitoring is None:
            return []
        values = self._fields.collect(self._monitoring)
        self.reason = "" if values else (
            "libtpu tells nothing: the service that it asks runs in the job, at TPU_RUNTIME_METRICS_PORTS (8431)"
        )  # fmt: skip
        return values

    def stop(self) -> None:
        self._agent, self._monitoring, self._tried = None, None, False

    def _open(self, agent: Agent) -> None:
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
                self._monitoring = Monitoring(library, supported, _devices(agent.resource))
        if self.reason:
            agent.log(f"no metrics of TPUs: {self.reason}")


def _trial() -> str:
    """Why the library cannot be used; empty if it answers. Tried in a separate process, since it may crash or hang."""
    command: list[Any] = [sys.executable, "-c", _TRIAL, *sys.path]
    try:
        done = subprocess.run(
            command,
            timeout=TRIAL_SECONDS,
            check=False,
            capture_output=True,
            text=True,
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


def _devices(resource: Mapping[str, str]) -> int | None:
    ids = resource.get("jax.local_hardware_ids")
    return None if ids is None else len(ids.split(","))
