"""What is shown of the observed process, and of how the observer itself is doing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from jaxobs.derive.compilation.persistent_cache import PersistentCacheView
from jaxobs.derive.devices.devices import NO_BACKEND
from jaxobs.derive.loops.host_lines import HostLineView
from jaxobs.derive.loops.under_way import RunningView
from jaxobs.derive.memory.view import LiveArrays, PeakExecutable, ProcessMemory
from jaxobs.derive.process.recent import RecentView
from jaxobs.model.events import BackendFound, SourceReported
from jaxobs.model.figure import REASON_WHERE_ABSENT, Figure, Later, figure

NO_NAME = "no script to name it by: set JAXOBS_RUN or instrument(run=…)"
NO_ATTEMPT = "no launcher that counts restarts: SLURM_RESTART_COUNT, JOBSET_RESTART_ATTEMPT, TORCHELASTIC_RESTART_COUNT"
IN_THE_JOB = "the agent is a thread of the job, and has none of its own"


@dataclass(frozen=True, slots=True)
class IdentityView:
    """Which process is observed, and its versions of JAX."""

    service_name: Figure[str]
    host_name: Figure[str]
    pid: Figure[int]
    run: Figure[str]
    attempt: Figure[int]
    user: Figure[str]
    process_index: Figure[int]
    process_count: Figure[int]
    jax: Figure[str]
    jaxlib: Figure[str]
    platform: Figure[str]


@dataclass(frozen=True, slots=True)
class ProcessView:
    """The process as a whole. `seconds` is its age, `run_seconds` what it was spent on."""

    seconds: float
    run_seconds: Mapping[str, float]
    goodput: Figure[float]
    running: Figure[RunningView]
    persistent_cache: PersistentCacheView
    address: Figure[str]
    """Where `/metrics` is served."""
    host_lines: Figure[Sequence[HostLineView]]
    """Lines that the main thread was at outside loops."""
    host_samples: int
    memory: Figure[ProcessMemory] = field(metadata=REASON_WHERE_ABSENT)
    peak_executable: Figure[PeakExecutable] = field(metadata=REASON_WHERE_ABSENT)
    live_arrays: Figure[LiveArrays] = field(metadata=REASON_WHERE_ABSENT)
    recent: Later[RecentView]


@dataclass(frozen=True, slots=True)
class SourceView:
    """How a plugin is doing; `reason` says why it is not up, or why it has nothing to report."""

    kind: str
    up: Figure[bool]
    seconds: float
    failures: int
    reason: str | None


@dataclass(frozen=True, slots=True)
class ExporterView(SourceView):
    """How an exporter is doing; `dropped` are the events and spans that it is known to have lost."""

    dropped: Figure[int]


@dataclass(frozen=True, slots=True)
class CpuView:
    """CPU seconds that observing took: `probe` in the job, and `agent` beside it."""

    probe: float
    agent: Figure[float]


@dataclass(frozen=True, slots=True)
class AgentView:
    """What observing costs, and what became of the events.

    Accepted, dropped and refused events add up to the emitted ones, once none is on its way.
    """

    events_emitted: int
    events_accepted: int
    events_dropped: int
    events_refused: int
    cpu_seconds: CpuView
    resident_bytes: Figure[int]
    pid: Figure[int]
    refused_reasons: Sequence[str]


def identity_view(resource: Mapping[str, str], backend: BackendFound | None) -> IdentityView:
    """The identity of the process; what the environment does not provide is absent, with a reason."""
    pid, attempt = resource.get("process.pid", ""), resource.get("jaxobs.attempt", "")
    return IdentityView(
        service_name=figure(resource.get("service.name"), "the resource has no service.name"),
        host_name=figure(resource.get("host.name"), "the resource has no host.name"),
        pid=figure(int(pid) if pid.isdecimal() else None, "the resource has no process.pid"),
        run=figure(resource.get("jaxobs.run"), NO_NAME),
        attempt=figure(int(attempt) if attempt.isdecimal() else None, NO_ATTEMPT),
        user=figure(resource.get("process.owner"), "the system has no name for the user's number"),
        process_index=figure(backend.process_index if backend else None, NO_BACKEND),
        process_count=figure(backend.process_count if backend else None, NO_BACKEND),
        jax=figure(backend.jax_version if backend else None, NO_BACKEND),
        jaxlib=figure(backend.jaxlib_version if backend else None, NO_BACKEND),
        platform=figure(backend.platform if backend else None, NO_BACKEND),
    )


def is_up(source: SourceReported) -> bool | None:
    """Whether a source works; None for one that has nothing to read here, as its driver or library is not installed."""
    return None if source.up and source.reason else source.up


def source_view(source: SourceReported, dropped: tuple[int, str] | None) -> SourceView:
    """The view of a source.

    `dropped` is how much an exporter is known to have lost and why there may be more; None where it is sent nothing.
    """
    up = figure(is_up(source), source.reason)
    if source.kind != "exporter":
        return SourceView(source.kind, up, source.seconds, source.failures, source.reason or None)
    lost: Figure[int] = Figure(None, "it could not be loaded, so nothing was given to it")
    if dropped is not None:
        events, unknown = dropped
        lost = Figure(None, unknown) if unknown else Figure(events)
    return ExporterView(source.kind, up, source.seconds, source.failures, source.reason or None, lost)
