"""The observed process, and how its observer is doing: events, plugins, and what observing costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from jaxobs.derive.compiles import PersistentCacheView
from jaxobs.derive.devices import NO_BACKEND
from jaxobs.derive.loops.host_lines import Row
from jaxobs.derive.memory import LiveArrays, ProcessMemory
from jaxobs.derive.refusal import Refusals, is_amount, require
from jaxobs.model.clock import NANOSECONDS, seconds
from jaxobs.model.events import (
    Attributes,
    BackendFound,
    ExecutableRan,
    ProbeReported,
    RunUnderWay,
    SourceReported,
    StepCompleted,
)
from jaxobs.model.figure import REASON_WHERE_ABSENT, Figure, figure

FRESH: Final = 5 * NANOSECONDS
"""Nanoseconds after its last report from which on a run may have ended. It is reported once a second, and the report
arrives a second later."""

RUN_LABELS: Final = (
    "jaxobs.run", "jaxobs.run_id", "jaxobs.attempt", "jax.process_index", "host.name", "process.owner", "slurm.job_id",
    "k8s.namespace.name", "jaxobs.cluster", "jaxobs.experiment",
)  # fmt: skip
"""Attributes of the resource that are the labels of `jaxobs_run_info`, each empty where the resource lacks it."""

NO_NAME = "no script to name it by: set JAXOBS_RUN or instrument(run=…)"
NO_COUNT = "the launcher tells the rank and not how many there are, and JAX knows of itself alone"
NO_ATTEMPT = "no launcher that counts restarts: SLURM_RESTART_COUNT, JOBSET_RESTART_ATTEMPT, TORCHELASTIC_RESTART_COUNT"
NO_LONG_RUN = "no run of a watched function is known to have lasted for two seconds by now"
NOT_MEASURED = "the agent has not measured itself yet"


@dataclass(frozen=True, slots=True)
class ProcessView:
    """The process as a whole. `seconds` is its age, `run_seconds` what it was spent on."""

    seconds: float
    run_seconds: Mapping[str, float]
    phase_seconds: Mapping[str, float]
    """Of the phases that ended, of all threads together, without the loops and other phases in them."""
    goodput: Figure[float]
    running: Figure[Mapping[str, Any]]
    """The function of a run that is under way, and for how many seconds it is known to have run."""
    compiling: Mapping[str, float]
    """The functions that are being compiled, each with the seconds since that began."""
    compiling_phases: Mapping[str, str]
    """What of it goes on now: `trace`, `lower` or `backend`."""
    phases: Mapping[str, float]
    """The phases under way, in the same way."""
    persistent_cache: PersistentCacheView
    address: Figure[str]
    """Where `/metrics` is served."""
    host_lines: Figure[Sequence[Row]]
    """Lines that the main thread was at outside loops."""
    host_calls: Figure[Sequence[Row]]
    """The same samples as a tree of calls."""
    host_samples: int
    memory: Figure[ProcessMemory] = field(metadata=REASON_WHERE_ABSENT)
    peak_executable: Figure[Mapping[str, Any]] = field(metadata=REASON_WHERE_ABSENT)
    """The executable whose runs need the most memory on a device."""
    live_arrays: Figure[LiveArrays] = field(metadata=REASON_WHERE_ABSENT)


class SourceState(NamedTuple):
    """The last report of a plugin.

    `lost`: for an exporter that is sent anything, how many events and spans it is known to have lost, and why there may
    be more.
    """

    report: SourceReported
    lost: tuple[int, str] | None


class RunsUnderWay:
    """The newest run under way; one is enough, as a device runs one after the other."""

    def __init__(self) -> None:
        self.newest: RunUnderWay | None = None
        """It is None once the device was done with it, which is not seen where its output died before."""

    def seen(self, event: RunUnderWay) -> None:
        self.newest = event

    def ended(self, event: ExecutableRan | StepCompleted) -> None:
        """The device was done with a run, and so with all runs dispatched before it."""
        if self.newest is not None and event.time >= self.newest.time:
            self.newest = None

    def at(self, now: int) -> RunUnderWay | None:
        """The run that was under way within `FRESH` nanoseconds before `now`, if any."""
        newest = self.newest
        return newest if newest is not None and now - newest.time <= FRESH else None

    def view(self, now: int, function_of: Callable[[int], str]) -> Figure[Mapping[str, Any]]:
        """The run under way, with its function named by `function_of`; or why none is known."""
        newest = self.at(now)
        if newest is None:
            return Figure(None, NO_LONG_RUN)
        return Figure({"function": function_of(newest.run), "seconds": seconds(newest.time - newest.start)})


class Observation:
    """Counts of events, reports of plugins and of the probe side, and the agent's own cost."""

    def __init__(self, refusals: Refusals, began: int) -> None:
        self._refusals = refusals
        self.accepted = self.refused = 0
        self.emitted_here = 0
        """Events that did not come from the job."""
        self.address: str | None = None
        self.last_heard: int | None = None
        """When something last arrived from the job, in monotonic nanoseconds; None before that."""
        self.agent_pid: int | None = None
        """The agent's process id; None before it has started."""
        self._sources: dict[str, SourceReported] = {}
        self._lost_by: dict[str, tuple[int, str]] = {}
        self._probe = ProbeReported(0, 0, 0, 0, 0.0, began)
        self._cpu_of_agent: float | None = None
        self._resident: int | None = None

    def agent_measured(self, cpu_seconds: float, resident_bytes: int) -> None:
        """Take the agent's own cost so far."""
        self._cpu_of_agent, self._resident = cpu_seconds, resident_bytes

    def exporter_dropped(self, exporter: str, events: int, unknown: str = "") -> None:
        """Take how many events and spans an exporter has lost so far; `unknown` says why there may be more."""
        self._lost_by[exporter] = (events, unknown)

    def source_reported(self, event: SourceReported) -> None:
        require(is_amount(event.seconds), "time spent that is no duration")
        name = event.source
        previous = self._sources.get(name)
        if previous is not None and previous.kind != event.kind:
            name = f"{event.kind} {name}"  # a probe and an exporter of one plugin may share its name
        self._sources[name] = event

    def probe_reported(self, event: ProbeReported) -> bool:
        """Take a report of the probe side; return whether events were lost since the one before it."""
        require(is_amount(event.cpu_seconds), "CPU time that is no duration")
        lost = event.dropped > self._probe.dropped
        self._probe = event
        return lost

    def sources(self) -> dict[str, SourceState]:
        """The state of each plugin by its name."""
        reports = sorted(self._sources.items())
        return {name: SourceState(report, self._lost_by.get(report.source)) for name, report in reports}

    def agent(self) -> dict[str, Any]:
        """What observing costs, and what became of the events, as plain data.

        Accepted, dropped and refused events add up to the emitted ones, once none is on its way.
        """
        agent = figure(self._cpu_of_agent, NOT_MEASURED)
        return {
            "events_emitted": self._probe.emitted + self.emitted_here,
            "events_accepted": self.accepted,
            "events_dropped": self._probe.dropped,
            "events_refused": self.refused + self._probe.refused,
            "listeners_restored": self._probe.listeners_restored,
            "cpu_seconds": {"probe": self._probe.cpu_seconds, **agent.under("agent")},
            **figure(self._resident, NOT_MEASURED).under("resident_bytes"),
            **figure(self.agent_pid, NOT_MEASURED).under("pid"),
            "refused_reasons": self._refusals.reasons(),
        }


def run_attributes(
    resource: Mapping[str, str], steps: int, goodput: float | None, *, by_itself: bool
) -> Attributes:
    """Attributes of the span of the whole run; `by_itself` is false where the job died without reporting its end."""
    known: Attributes = tuple((name, resource[name]) for name in RUN_LABELS[:4] if name in resource)
    known += (("jax.run.steps", steps), ("jax.run.ended", "by itself" if by_itself else "killed"))
    return known if goodput is None else (*known, ("jax.run.goodput", goodput))


def identity_view(resource: Mapping[str, str], backend: BackendFound | None) -> dict[str, Any]:
    """Which process is observed, and its versions of JAX; what the environment does not provide has a reason instead."""

    def number(attribute: str, reason: str) -> Figure[int]:
        given = resource.get(attribute, "")
        return figure(int(given) if given.isdecimal() else None, reason)

    figures: dict[str, Figure[str] | Figure[int]] = {
        "service_name": figure(resource.get("service.name"), "the resource has no service.name"),
        "host_name": figure(resource.get("host.name"), "the resource has no host.name"),
        "pid": number("process.pid", "the resource has no process.pid"),
        "run": figure(resource.get("jaxobs.run"), NO_NAME),
        "script": figure(resource.get("jaxobs.script"), "a prompt or a notebook has none"),
        "run_id": figure(resource.get("jaxobs.run_id"), "the resource has no jaxobs.run_id"),
        "attempt": number("jaxobs.attempt", NO_ATTEMPT),
        "user": figure(resource.get("process.owner"), "the system has no name for the user's number"),
        "process_index": number("jax.process_index", NO_BACKEND),
        "process_count": number("jax.process_count", NO_COUNT if backend else NO_BACKEND),
        "jax": figure(backend and backend.jax_version, NO_BACKEND),
        "jaxlib": figure(backend and backend.jaxlib_version, NO_BACKEND),
        "platform": figure(backend and backend.platform, NO_BACKEND),
    }
    return {key: part for name, each in figures.items() for key, part in each.under(name).items()}


def is_up(source: SourceReported) -> bool | None:
    """Whether a source works; None for one that has nothing to read here, as its driver or library is not installed."""
    return None if source.up and source.reason else source.up


def source_view(source: SourceState) -> dict[str, Any]:
    """How the plugin is doing, as plain data; `reason` says why it is not up, or why it has nothing to report."""
    report, lost = source
    document = {
        "kind": report.kind,
        **figure(is_up(report), report.reason).under("up"),
        "seconds": report.seconds,
        "failures": report.failures,
        "reason": report.reason or None,
    }
    if report.kind != "exporter":
        return document
    dropped, unknown = lost or (None, "it could not be loaded, so nothing was given to it")
    return document | figure(None if unknown else dropped, unknown).under("dropped")
