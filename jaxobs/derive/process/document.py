"""The parts of a snapshot's document that say who is observed, and how the observer fares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jaxobs.model.events import BackendFound, ProbeReported, SourceReported

NO_NAME = "no script to name it by: set JAXOBS_RUN or instrument(run=…)"
NO_ATTEMPT = "no launcher that counts restarts: SLURM_RESTART_COUNT, JOBSET_RESTART_ATTEMPT, TORCHELASTIC_RESTART_COUNT"
NO_BACKEND = "JAX has made no backend yet"
IN_THE_JOB = "the agent is a thread of the job, and has none of its own"


def process_document(resource: Mapping[str, str], backend: BackendFound | None) -> dict[str, Any]:
    """Identity and versions; what the environment does not tell is None with its reason."""
    pid, attempt = resource.get("process.pid", ""), resource.get("jaxobs.attempt", "")
    told: dict[str, tuple[Any, str]] = {
        "service_name": (resource.get("service.name"), "the resource has no service.name"),
        "host_name": (resource.get("host.name"), "the resource has no host.name"),
        "pid": (int(pid) if pid.isdecimal() else None, "the resource has no process.pid"),
        "run": (resource.get("jaxobs.run"), NO_NAME),
        "attempt": (int(attempt) if attempt.isdecimal() else None, NO_ATTEMPT),
        "user": (resource.get("process.owner"), "the system has no name for the user's number"),
        "process_index": (backend.process_index if backend else None, NO_BACKEND),
        "process_count": (backend.process_count if backend else None, NO_BACKEND),
        "jax": (backend.jax_version if backend else None, NO_BACKEND),
        "jaxlib": (backend.jaxlib_version if backend else None, NO_BACKEND),
        "platform": (backend.platform if backend else None, NO_BACKEND),
    }
    document: dict[str, Any] = {}
    for name, (value, reason) in told.items():
        document |= {name: value, f"{name}_reason": reason if value is None else None}
    return document


def has_nothing_to_tell(source: SourceReported) -> bool:
    """Whether it works, but there is nothing here that it could read: a driver or a library that is not installed."""
    return source.up and bool(source.reason)


def source_document(source: SourceReported, dropped: tuple[int, str] | None) -> dict[str, Any]:
    """How a plugin fares; `reason` is why it is not up or tells nothing.

    `dropped` is what an exporter is known to have lost, and why there may be more; None of one that is given nothing.
    """
    absent = has_nothing_to_tell(source)
    return {
        "kind": source.kind,
        "up": None if absent else source.up,
        "up_reason": source.reason if absent else None,
        "seconds": source.seconds,
        "failures": source.failures,
        "reason": source.reason or None,
        **(_lost(dropped) if source.kind == "exporter" else {}),
    }


def _lost(dropped: tuple[int, str] | None) -> dict[str, Any]:
    if dropped is None:
        return {"dropped": None, "dropped_reason": "it could not be loaded, so nothing was given to it"}
    events, unknown = dropped
    return {"dropped": None if unknown else events, "dropped_reason": unknown or None}


def agent_document(
    emitted: int,
    accepted: int,
    refused: int,
    probe: ProbeReported,
    cpu_seconds: float | None,
    resident_bytes: int | None,
) -> dict[str, Any]:
    """What observing costs, and what became of the events: once nothing is on its way the three add up to the emitted."""
    return {
        "events_emitted": emitted,
        "events_accepted": accepted,
        "events_dropped": probe.dropped,
        "events_refused": refused,
        "cpu_seconds": {
            "probe": probe.cpu_seconds,
            "agent": cpu_seconds,
            "agent_reason": IN_THE_JOB if cpu_seconds is None else None,
        },
        "resident_bytes": resident_bytes,
        "resident_bytes_reason": IN_THE_JOB if resident_bytes is None else None,
    }
