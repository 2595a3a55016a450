"""The document of a snapshot, each part of which one view writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from jaxobs.derive.compilation.compilations import Compiles
from jaxobs.derive.devices.devices import Devices
from jaxobs.derive.devices.throttling import clocks_document
from jaxobs.derive.executables.registry import Executables
from jaxobs.derive.loops.document import loop_document
from jaxobs.derive.loops.goodput import RunTime
from jaxobs.derive.loops.loops import Loops
from jaxobs.derive.loops.under_way import RunsUnderWay
from jaxobs.derive.memory.usage import Memory
from jaxobs.derive.process.document import NO_BACKEND, process_document
from jaxobs.derive.process.observation import Observation
from jaxobs.derive.process.recent import Recent
from jaxobs.derive.profiler_windows.windows import Profiles
from jaxobs.model.clock import seconds


class Views(Protocol):
    """The views that write a snapshot. All but `recent` and `under_way` are brought up to date before."""

    began: int
    resource: Mapping[str, str]
    facts: Mapping[str, Any]
    compiles: Compiles
    executables: Executables
    profiles: Profiles
    devices: Devices
    memory: Memory
    recent: Recent
    run_time: RunTime
    loops: Loops
    under_way: RunsUnderWay
    observation: Observation


def document_of(views: Views, now: int) -> dict[str, Any]:
    """All keys of a snapshot but `advice`, which is drawn from them."""
    executables = views.executables.document()
    loops = {name: loop_document(loop, views.executables) for name, loop in views.loops.by_name.items()}
    return {
        "process": _process(views, executables, now),
        "loops": loops,
        **views.compiles.document(),
        "executables": executables,
        **views.executables.left_out(),
        **views.profiles.document(),
        "devices": views.devices.document(
            views.memory.device_document,
            lambda reading, lately: clocks_document(reading, lately, loops, executables),
        ),
        "devices_reason": None if views.devices.backend else NO_BACKEND,
        "sources": views.observation.sources_document(),
        "agent": views.observation.agent_document(),
    }


def _process(views: Views, executables: list[dict[str, Any]], now: int) -> dict[str, Any]:
    goodput = views.run_time.goodput()
    address = views.observation.address
    return {
        **process_document(views.resource, views.devices.backend),
        "seconds": seconds(now - views.began),
        "run_seconds": dict(views.run_time.seconds),
        "goodput": goodput,
        "goodput_reason": views.run_time.why_no_goodput() if goodput is None else None,
        **views.under_way.document(now, views.executables.function_of),
        "persistent_cache": views.compiles.persistent_cache.document(),
        "address": address,
        "address_reason": None if address else "no exporter serves metrics",
        **views.facts,
        **views.loops.outside.document(),
        **views.memory.process_document(executables, now),
        "recent": views.recent.document(now),
    }
