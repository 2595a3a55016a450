"""The base classes of plugins: the methods that each kind must define, and defaults for the others.

A plugin is such a class, named by an entry point in the group `jaxobs.probes`, `jaxobs.collectors` or
`jaxobs.exporters` and made without arguments; the entry point's name is the plugin's name. Each plugin is loaded alone,
timed from outside, and set aside after repeated failures: it may raise, and must not hang. `jaxobs.testing` checks one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from jaxobs.model.events import Measured
from jaxobs.model.metrics import DeviceReading, Metric
from jaxobs.model.profile import ProfileResult
from jaxobs.plugin.protocol import Agent, Batch, Job, Remark

DEVICE_VARIABLES = (
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL",
    "JAX_PLATFORMS", "JAX_CUDA_VISIBLE_DEVICES", "JAX_ROCM_VISIBLE_DEVICES", "JAX_LOCAL_DEVICE_IDS", "NCCL_RAS_ADDR",
    "NCCL_RAS_ENABLE", "TPU_RUNTIME_METRICS_PORTS",
)  # fmt: skip
"""Variables that say which devices a process uses, and where their libraries answer. The agent takes them over as the job
has them when JAX makes its backend: a script may set them before it imports JAX, when the agent runs already."""


class Plugin(ABC):  # noqa: B024  # what must be overridden depends on the kind
    """What probes, collectors and exporters have in common."""

    metrics: tuple[Metric, ...] = ()
    """The metrics that it emits as `Measured`; their names begin with a prefix of its own."""

    settings: Any = None
    """Its own settings: an instance of a frozen dataclass in which every field has a default, or None if there are none.

    When the plugin is loaded an instance takes its place that was read from the environment: the field `limit` of a
    plugin named `example` is `JAXOBS_EXAMPLE_LIMIT` (`jaxobs.plugin.settings`).
    """

    reason: str = ""
    """Why it has nothing to tell though nothing failed: its library is not installed, say. Else empty."""

    def check(self, settings: Mapping[str, Any]) -> Iterable[Remark]:  # noqa: ARG002  # for those that override it
        """What `jaxobs check` shows of it; `settings` are those of jaxobs.

        Called without `start`, leaves nothing behind, and answers within a few seconds.
        """
        return ()


class Probe(Plugin):
    """A plugin in the training process: it hooks into JAX or a library there, or samples them.

    Its module does not import jax at the top, but in `start`: the agent process, which refuses to load JAX, imports the
    module too, for `metrics`.
    """

    @abstractmethod
    def start(self, job: Job) -> None:
        """Hook in. JAX is imported; a backend may not exist yet and must not be made."""

    def sample(self) -> None:
        """Called about once a second on a thread of jaxobs, if the class overrides it."""

    def profile(self, seconds: float, keep: bool | str) -> Future[ProfileResult]:
        """Begin a profiler window and return its result to come, without waiting; asked of classes that override it.

        With 0 seconds the window is one that the probe would make by itself, and comes as soon as its budget allows.
        """
        raise NotImplementedError

    def stop(self) -> None:
        """Unhook; safe without `start` and twice."""


class Collector(Plugin):
    """A plugin in the agent process that is polled, for hardware or the host. JAX must not be imported."""

    interval: float = 5.0
    """Seconds from one `collect` to the next."""

    device_readings: tuple[DeviceReading, ...] = ()
    """Which of its metrics are a device's utilisation, clocks and throttling."""

    def start(self, agent: Agent) -> None:
        """Open what is read. The environment is that of the training process; DEVICE_VARIABLES may still change."""

    @abstractmethod
    def collect(self) -> Iterable[Measured]:
        """Values of the declared metrics, as they are now."""

    def stop(self) -> None:
        """Close what was opened; safe without `start` and twice."""

    def devices_present(self) -> Sequence[str]:
        """Names of the accelerators of this host, for `jaxobs check`; called without `start`."""
        return ()


class Delivery(NamedTuple):
    """How an exporter fares with what it was given."""

    dropped: int | None = None
    """Events and spans that it has lost by itself so far. None: unknown once `export` has raised."""

    undelivered: str = ""
    """What it was given and has not delivered, in words, for the last summary; empty where that is nothing."""

    worth_waiting_for: bool | None = None
    """Whether what it sends has lately arrived, and soon: only then does the end of a job wait for it longer than half
    a second. None: it waits if the last `export` was as quick as that."""

    failing: str = ""
    """Why what it last tried to send did not arrive; empty where it did. Until then the plugin is not up, though no call
    of it fails."""


class Exporter(Plugin):
    """A plugin in the agent process that shows: it is given snapshots, events and spans on a thread of its own."""

    takes_events: bool = True
    """Whether its batches have events. Without them they cost less: a step is one."""

    takes_batches: bool = True
    """Whether `export` is called at all; looked at once, after `start`. False where the settings give it nothing to do:
    its thread then does not wake up for each batch."""

    sends_spans: bool = False
    """Whether what it sends its spans to opens them by their trace ids; looked at once, after `start`. Unless one does,
    histograms have no exemplars: nothing is behind their ids."""

    awaited: bool = True
    """Whether the end of the job may wait for what it still holds; the agent goes on for some seconds in any case."""

    def start(self, agent: Agent) -> None:
        """Open what is written to."""

    @abstractmethod
    def export(self, batch: Batch) -> None:
        """Take what is new, about once a second and once more at the end. While it is set aside, what is new waits."""

    def job_ended(self) -> None:
        """Called at once when the job is over, before the last flush, if the class overrides it; must not wait."""

    def delivery(self) -> Delivery:
        """How it fares; called at any time, from other threads, and returns at once."""
        return Delivery()

    def stop(self, timeout: float) -> None:
        """Close ports and files, first what others would wait for; give up after `timeout` seconds.

        Safe without `start` and twice.
        """
