"""Joins a trace with costs and peaks to plain data: per device, module, operation and named scope.

Times of an operation are summed over the devices that ran it; its cost is that of its executions there, so that a loop
whose trip count the compiler did not know is counted as often as it was seen to run. An absent value is None, and
`reason` says why.

Where operations run in parallel each moment is divided equally between them: `seconds` are these parts, which add up to
the busy time, and `share`, the achieved rates and `efficiency` are computed from them. `self_seconds` are the times of
an operation as if it had run alone.
"""

from __future__ import annotations

import dataclasses
import socket
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import Any, Final

from jaxobs.cost_model import Rule, cost_or_reason
from jaxobs.hardware.known_peaks import known_peaks
from jaxobs.hardware.peaks import Peak, Peaks
from jaxobs.model.cost import ModuleCost
from jaxobs.model.trace import DeviceTrace, Trace
from jaxobs.roofline_model.bounds import Roof, model_flops_utilization, roof
from jaxobs.roofline_model.call_tree import PATHS, Part, Path, call_tree
from jaxobs.roofline_model.operation_work import Work
from jaxobs.roofline_model.traced import Operation, Profiled, ProfiledDevice, ProfiledModule, join
from jaxobs.vocabulary.text import printable_document

MAX_FRAMES: Final = 2_000
"""Most frames of each tree of device time: ten times as many as in a snapshot, since a report is made once."""


def build_report(
    source: str, trace: Trace, peaks: Mapping[tuple[str, str], Peaks], rules: Mapping[str, Rule]
) -> tuple[dict[str, Any], list[Roof]]:
    """The report of `jaxobs analyze` as plain data, and the roofs below which some operation lies.

    `peaks` are those of each (host, device), `rules` those for the costs of custom calls.
    """
    profiled = join(trace, _modules_of(trace, rules), peaks)
    busy = profiled.busy_seconds
    devices = [_device(device) for device in profiled.devices]
    modules = sorted(profiled.modules.values(), key=lambda one: -one.work.seconds)
    operations = sorted(profiled.operations.values(), key=lambda one: -one.work.seconds)
    document = {
        "source": source,
        "hosts": [
            {"name": host.name, "versions": dict(host.versions), "notes": host.notes} for host in trace.hosts
        ],
        "busy_seconds": busy,
        "unmodelled_share": sum(row["unmodelled_seconds"] for row in devices) / busy if busy else None,
        "devices": devices,
        "modules": [_module(one, busy) for one in modules],
        "operations": [_shown(one, _OF_AN_OPERATION) | one.work.figures(busy) for one in operations],
        "device_time": {name: _tree(profiled, path) for name, path in PATHS.items()},
    }
    document = printable_document(document)  # names are those of the traced program
    kinds = {device.peaks.device_kind: device.peaks for device in profiled.devices}
    roofs = (roof(kinds[kind], dtype) for kind, names in profiled.dtypes.items() for dtype in sorted(names))
    return document, [found for found in roofs if found is not None]


def _tree(profiled: Profiled, path: Callable[[Operation], Path]) -> list[dict[str, Any]]:
    def figures(work: Work) -> dict[str, Any]:
        known = work.figures(profiled.busy_seconds)
        return {key: known[key] for key in _OF_A_FRAME}

    parts = (Part(path(one), one.label, one.work, one.name) for one in profiled.operations.values())
    return [node.row(figures) for node in call_tree(parts, MAX_FRAMES)]


def _modules_of(trace: Trace, rules: Mapping[str, Rule]) -> Callable[[str, int | None], ModuleCost | str]:
    """A function that returns the cost of a trace's module, or why it is unknown; decodes each module once."""
    cost_of = cache(partial(cost_or_reason, custom_call_rules=rules))

    def find(host: str, program_id: int | None) -> ModuleCost | str:
        serialized = trace.module(host, program_id)
        if serialized is None:
            return "its module is not in the trace, or several there have its name"
        return cost_of(serialized)

    return find


_OF_AN_OPERATION: Final = (
    "name", "module", "fingerprint", "category", "kind", "operation_name", "scope", "source", "called_from", "kernels",
    "count", "executions", "devices", "label",
)  # fmt: skip
_OF_A_FRAME: Final = ("seconds", "share", "flops", "bytes", "bound", "efficiency", "reason")
_OF_A_MODULE: Final = ("name", "devices", "runs", "runs_reason")
_OF_A_DEVICE: Final = (
    "name", "host", "platform", "span_seconds", "busy_seconds", "idle_seconds", "gap_seconds", "compute_seconds",
    "collective_seconds", "exposed_communication_seconds", "transfer_seconds", "exposed_transfer_seconds",
)  # fmt: skip
_FIGURES_OF_A_DEVICE: Final = (
    "flops", "bytes", "bound_seconds", "efficiency", "efficiency_reason", "unmodelled_seconds", "exact",
)  # fmt: skip


def _shown(thing: Any, names: Iterable[str]) -> dict[str, Any]:
    """These attributes of an object."""
    return {name: getattr(thing, name) for name in names}


def _module(module: ProfiledModule, busy: float) -> dict[str, Any]:
    fingerprint = module.cost.fingerprint if module.cost else None
    return _shown(module, _OF_A_MODULE) | {"fingerprint": fingerprint} | module.work.figures(busy)


def _device(profiled: ProfiledDevice) -> dict[str, Any]:
    device, peaks, whole = profiled.trace, profiled.peaks, profiled.work
    used = model_flops_utilization(whole.cost, device.span_seconds, peaks)
    figures = whole.figures(device.busy_seconds)
    return {
        **_shown(device, _OF_A_DEVICE),
        "device_kind": device.kind,
        **_shown(used, ("mfu", "hfu")),
        "mfu_reason": used.reason,
        **{name: figures[name] for name in _FIGURES_OF_A_DEVICE},
        "capabilities": dict(device.capabilities),
        "peaks": peaks.to_dict(),
        "notes": device.notes,
    }


_SAID_BY_PROFILER: Final = (
    ("memory", "memory_bandwidth", 1.0),
    ("memory", "peak_hbm_bw_gigabytes_per_second", 1e9),
    ("matrix", "peak_teraflops_per_second", 1e12),
)
"""Peaks, what a trace calls them, and their units."""


def peaks_of(device: DeviceTrace, settings: Mapping[str, Any], jaxlib: str | None, devices: int = 1) -> Peaks:
    """The peaks of one of a host's `devices` in a trace. A calibration counts only if it was made on this host."""
    kind = device.kind or f"unknown {device.platform.upper()}"
    elsewhere = device.host != socket.gethostname()
    found = known_peaks(kind, device.platform, jaxlib, settings, elsewhere=elsewhere, devices=devices)
    for part, name, scale in _SAID_BY_PROFILER:
        value = device.capabilities.get(name)
        if not getattr(found, part) and isinstance(value, float) and 0 < value < float("inf"):
            peak = Peak(value * scale, "profiler", "the profiler, from the device")
            if part == "memory":
                found = dataclasses.replace(found, memory=peak)
            else:  # of a TPU's matrix unit, in bfloat16
                found = dataclasses.replace(found, matrix={"bfloat16": peak})
    return found
