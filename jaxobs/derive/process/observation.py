"""How jaxobs itself is doing: what became of the events, what observing costs, and which plugins work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jaxobs.derive.metrics.catalogue import process_metrics
from jaxobs.derive.metrics.series import Series
from jaxobs.derive.process.view import IN_THE_JOB, AgentView, CpuView, SourceView, is_up, source_view
from jaxobs.derive.refusal import is_amount, require
from jaxobs.model.clock import NANOSECONDS, ClockAnchor
from jaxobs.model.events import Attributes, BackendFound, ProbeReported, SourceReported
from jaxobs.model.figure import Later, figure

_LABELS = ("jaxobs.run", "jaxobs.attempt", "jax.process_index", "host.name", "process.owner")
"""Attributes of the resource that are the labels of `jaxobs_run_info`, each empty where the resource lacks it."""


class Observation:
    """Counts of events, reports of plugins and of the probe side, and the agent's own cost."""

    def __init__(self, series: Series, clock: ClockAnchor, began: int) -> None:
        self._series = series
        self._clock = clock
        self.accepted = self.refused = 0
        self.emitted_here = 0
        """Events that did not come from the job."""
        self.address: str | None = None
        self.last_heard: int | None = None
        """When something last arrived from the job, in monotonic nanoseconds; None before that."""
        self.agent_pid: int | None = None
        """The agent's process id; None where the agent is a thread of the job."""
        self._sources: dict[str, SourceReported] = {}
        self._dropped_by: dict[str, tuple[int, str]] = {}
        self._probe = ProbeReported(0, 0, 0, 0, 0.0, began)
        self._cpu_of_agent: float | None = None
        self._resident: int | None = None

    def agent_measured(self, cpu_seconds: float | None, resident_bytes: int | None) -> None:
        """Take the agent's own cost; None where the agent is a thread of the job, so that it cannot be told apart."""
        self._cpu_of_agent, self._resident = cpu_seconds, resident_bytes

    def exporter_dropped(self, exporter: str, events: int, unknown: str = "") -> None:
        """Take how many events and spans an exporter has lost so far; `unknown` says why there may be more."""
        self._dropped_by[exporter] = (events, unknown)
        self._series.total(process_metrics.EXPORTER_DROPPED, (exporter,), float(events))

    def source_reported(self, event: SourceReported) -> None:
        require(is_amount(event.seconds), "time spent that is no duration")
        name = event.source
        if (previous := self._sources.get(name)) is not None and previous.kind != event.kind:
            name = f"{event.kind} {name}"  # a probe and an exporter of one plugin may share its name
            previous = self._sources.get(name)
        self._sources[name] = event
        if previous is not None and previous[:-1] == event[:-1]:
            return  # nothing but the time of the report is new
        self._series.set(process_metrics.SOURCE_UP, (name,), is_up(event))
        self._series.total(process_metrics.SOURCE_SECONDS, (name,), event.seconds)
        if event.last_success is not None:
            at = self._clock.wall_time(event.last_success) / NANOSECONDS
            self._series.set(process_metrics.SOURCE_LAST_SUCCESS, (name,), at)
        if event.kind == "exporter":
            self._series.total(process_metrics.EXPORTER_FAILURES, (event.source,), event.failures)

    def probe_reported(self, event: ProbeReported) -> bool:
        """Take a report of the probe side; return whether events were lost since the one before it."""
        require(is_amount(event.cpu_seconds), "CPU time that is no duration")
        lost = event.dropped > self._probe.dropped
        self._probe = event
        return lost

    def update(
        self, resource: Mapping[str, str], facts: Mapping[str, Any], backend: BackendFound | None
    ) -> None:
        """Bring the series up to date with the events that were folded."""
        self._series.replace(
            process_metrics.BUILD_INFO,
            [(
                (
                    str(facts.get("jaxobs", "")), backend.jax_version if backend else "",
                    backend.jaxlib_version if backend else "", backend.platform if backend else "",
                    str(facts.get("agent", "")), self.address or "",
                ),
                1.0,
            )],
        )  # fmt: skip
        run = tuple(resource.get(name, "") for name in _LABELS)
        self._series.replace(process_metrics.RUN_INFO, [(run, 1.0)])
        heard = None if self.last_heard is None else self._clock.wall_time(self.last_heard) / NANOSECONDS
        self._series.set(process_metrics.LAST_HEARD, (), heard)
        agent = self.agent()
        for outcome, count in (
            ("accepted", agent.events_accepted),
            ("dropped", agent.events_dropped),
            ("refused", agent.events_refused),
        ):
            self._series.total(process_metrics.EVENTS, (outcome,), float(count))
        self._series.total(process_metrics.EVENTS_EMITTED, (), float(agent.events_emitted))
        self._series.total(process_metrics.LISTENERS_RESTORED, (), float(self._probe.listeners_restored))
        self._series.total(process_metrics.AGENT_CPU, ("probe",), agent.cpu_seconds.probe)
        if agent.cpu_seconds.agent.value is not None:
            self._series.total(process_metrics.AGENT_CPU, ("agent",), agent.cpu_seconds.agent.value)
        self._series.set(process_metrics.AGENT_RESIDENT, (), agent.resident_bytes.value)

    def sources(self) -> Later[dict[str, SourceView]]:
        sources, dropped_by = sorted(self._sources.items()), dict(self._dropped_by)
        return Later(
            lambda: {name: source_view(source, dropped_by.get(source.source)) for name, source in sources}
        )

    def agent(self) -> AgentView:
        return AgentView(
            self._probe.emitted + self.emitted_here,
            self.accepted,
            self._probe.dropped,
            self.refused + self._probe.refused,
            CpuView(self._probe.cpu_seconds, figure(self._cpu_of_agent, IN_THE_JOB)),
            figure(self._resident, IN_THE_JOB),
            figure(self.agent_pid, IN_THE_JOB),
            self._series.refusals.reasons(),
        )


def run_attributes(
    resource: Mapping[str, str], steps: int, goodput: float | None, *, by_itself: bool
) -> Attributes:
    """Attributes of the span of the whole run; `by_itself` is false where the job died without reporting its end."""
    known: Attributes = tuple((name, resource[name]) for name in _LABELS[:3] if name in resource)
    known += (("jax.run.steps", steps), ("jax.run.ended", "by itself" if by_itself else "killed"))
    return known if goodput is None else (*known, ("jax.run.goodput", goodput))
