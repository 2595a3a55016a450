"""Computes how busy the host was besides the job, on average over the run, from metrics of the collector `host`."""

from __future__ import annotations

from typing import Any, Final

from jaxobs.model.clock import seconds
from jaxobs.model.snapshot import SnapshotData

BUSY: Final = "jaxobs_host_cpu_utilization_ratio"
CPUS: Final = "jaxobs_host_cpus"
JOB: Final = "jaxobs_process_cpu_seconds_total"
SWITCHES: Final = "jaxobs_process_context_switches_total"
THROTTLED: Final = "jaxobs_cgroup_cpu_throttled_seconds_total"

NOT_READ: Final = "the collector `host` has not read twice, or cannot read the processors of this host"


class HostLoad:
    """Accumulates the host's load over the run, from snapshots with new readings of the collector."""

    def __init__(self) -> None:
        self._first: dict[str, float] = {}
        self._newest: dict[str, float] = {}
        self._cpus = 0.0
        self._busy_cpu_seconds = 0.0

    def read(self, snapshot: SnapshotData) -> None:
        """Add a snapshot's readings, unless they are those of the one before."""
        busy, cpus, job = (_value(snapshot, name) for name in (BUSY, CPUS, JOB))
        if busy is None or cpus is None or job is None or job == self._newest.get("job"):
            return
        agent = ((snapshot.document.get("agent") or {}).get("cpu_seconds") or {}).get("agent") or 0.0
        reading = {
            "time": seconds(snapshot.time),
            "job": job,
            "agent": float(agent),
            "switches": _value(snapshot, SWITCHES, ("involuntary",)),
            "throttled": _value(snapshot, THROTTLED),
        }
        known = {name: value for name, value in reading.items() if value is not None}
        self._cpus = cpus
        if self._newest:
            self._busy_cpu_seconds += busy * cpus * (known["time"] - self._newest["time"])
        self._first = self._first or known
        self._newest = known

    def to_dict(self) -> dict[str, Any]:
        """The means over the run.

        `other_cpus`: processors kept busy by all but the training process and the agent, including the job's own loader
        workers. `involuntary_switches_per_second`: how often the training process lost a processor to others.
        `throttled_cpus`: processors' worth of time that the container's limit withheld.
        """
        over = self._newest.get("time", 0.0) - self._first.get("time", 0.0)
        if over <= 0:
            names = ("cpus", "other_cpus", "involuntary_switches_per_second", "throttled_cpus")
            return {
                key: value for name in names for key, value in ((name, None), (f"{name}_reason", NOT_READ))
            }
        own = (self._grown("job") or 0.0) + (self._grown("agent") or 0.0)
        found: dict[str, Any] = {
            "cpus": self._cpus, "other_cpus": max(0.0, self._busy_cpu_seconds - own) / over,
        }  # fmt: skip
        for key, name, reason in (
            ("involuntary_switches_per_second", "switches", "the system does not count them"),
            ("throttled_cpus", "throttled", "no processor limit is known here"),
        ):
            grown = self._grown(name)
            found[key] = None if grown is None else grown / over
            found[f"{key}_reason"] = reason if grown is None else None
        return found

    def _grown(self, name: str) -> float | None:
        """By how much it grew; None where the first reading or the newest has no such value."""
        if name not in self._newest or name not in self._first:
            return None
        return self._newest[name] - self._first[name]


def _value(snapshot: SnapshotData, metric: str, labels: tuple[str, ...] = ()) -> float | None:
    for family in snapshot.families:
        if family.metric.name == metric:
            value = family.series.get(labels)
            return float(value) if isinstance(value, int | float) else None
    return None
