"""A trace joined with costs and peaks, as plain data: per device, module, operation and named scope.

Times of an operation are summed over the devices that ran it; its cost is that of its executions there, so that a loop
whose repetitions the compiler did not know is counted as often as it was seen to run. An absent value is None, and
`reason` says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from jaxobs.cli.analysis.work import LABELS, Work, repeated
from jaxobs.cost_model import HloDecodeError, module_cost
from jaxobs.derive.bottleneck import label_of_busy
from jaxobs.derive.roofline import Bound, bound_time, ceiling, model_flops_utilization
from jaxobs.model.cost import Cost, ModuleCost, OperationCost
from jaxobs.model.hardware import Peaks
from jaxobs.trace import DeviceTrace, OperationTime, Trace

_HIDDEN = "a command buffer, whose operations the profiler did not see"


@dataclass(slots=True)
class Report:
    """All that `jaxobs analyze` shows."""

    source: str
    document: dict[str, Any]
    """Plain data, ready for JSON."""
    roofs: list[tuple[str, str, tuple[tuple[float, float], ...]]]
    """Device kind, element type and (FLOP/byte, FLOP/s) of each roof that some operation stands under."""


class _Costs:
    """Costs of modules, each decoded once."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._known: dict[bytes, tuple[ModuleCost | None, dict[str, OperationCost], str | None]] = {}

    def of(
        self, host: str, program_id: int | None
    ) -> tuple[ModuleCost | None, dict[str, OperationCost], str | None]:
        serialized = self._trace.module(host, program_id)
        if serialized is None:
            return None, {}, "its module is not in the trace"
        found = self._known.get(serialized)
        if found is None:
            try:
                cost = module_cost(serialized)
            except HloDecodeError as error:
                found = (None, {}, f"its module cannot be read: {error}")
            else:
                found = (cost, {operation.name: operation for operation in cost.operations}, None)
            self._known[serialized] = found
        return found


def build_report(source: str, trace: Trace, peaks: Mapping[tuple[str, str], Peaks]) -> Report:
    """Join a trace with the costs of its modules; `peaks` are those of each (host, device)."""
    costs = _Costs(trace)
    operations: dict[tuple[str, str, str], tuple[Work, dict[str, Any]]] = {}
    modules: dict[tuple[str, str], tuple[Work, dict[str, Any]]] = {}
    scopes: dict[str, Work] = {}
    devices: list[dict[str, Any]] = []
    kinds: dict[str, Peaks] = {}
    dtypes: dict[str, dict[str, None]] = {}
    for device in trace.devices:
        own = peaks[device.host, device.name]
        kinds[own.device_kind] = own
        whole = Work()
        for time in device.operations:
            module, known, reason = costs.of(device.host, time.program_id)
            modelled = known.get(time.instruction) if time.instruction else None
            cost, why = _cost(time, module, modelled, reason)
            bound = None if cost is None else repeated(bound_time(cost, own), time.executions)
            cost = None if cost is None else cost.scaled(time.executions)
            if cost is not None:
                names = cost.executed_matrix_flops_by_type or cost.vector_flops_by_type
                dtypes.setdefault(own.device_kind, {}).update(dict.fromkeys(names))
            identity = module.fingerprint if module else str(time.program_id)
            place = (time.module or "", identity)
            row, about = operations.setdefault((*place, time.name), (Work(), _about(time, module, modelled)))
            about["count"] += time.count
            about["executions"] += time.executions
            about["devices"] += 1
            works = [whole, row]
            if time.module is not None:
                whole_module, about_module = modules.setdefault(place, (Work(), _about_module(time, module)))
                about_module["devices"].add((device.host, device.name))
                works.append(whole_module)
            if about["scope"]:
                works.append(scopes.setdefault(about["scope"], Work()))
            for work in works:
                work.add(time, cost, bound, why if work is row else None)
        for ran in device.modules:
            module, _, _ = costs.of(device.host, ran.program_id)
            place = (ran.name, module.fingerprint if module else str(ran.program_id))
            if place in modules:
                _add_runs(modules[place][1], ran.runs, ran.runs_reason)
        devices.append(_device(device, own, whole))
    busy = sum(device.busy_seconds for device in trace.devices)
    document = {
        "source": source,
        "hosts": [_host(host) for host in trace.hosts],
        "busy_seconds": busy,
        "unmodelled_share": sum(row["unmodelled_seconds"] for row in devices) / busy if busy else None,
        "devices": devices,
        "modules": _ranked(
            ({**about, "devices": len(about["devices"])}, work) for work, about in modules.values()
        )(busy),
        "operations": [
            {**row, "label": _label(row)}
            for row in _ranked((about, work) for work, about in operations.values())(busy)
        ],
        "scopes": _ranked(({"scope": scope}, work) for scope, work in scopes.items())(busy),
    }
    roofs = [
        (kind, dtype, ceiling(kinds[kind], dtype))
        for kind, names in dtypes.items()
        for dtype in sorted(names)
    ]
    return Report(source, document, [roof for roof in roofs if roof[2]])


def _cost(
    time: OperationTime, module: ModuleCost | None, known: OperationCost | None, reason: str | None
) -> tuple[Cost | None, str | None]:
    """The cost of one execution, or None and why there is none."""
    if time.kind == "command_buffer":
        return None, _HIDDEN
    if known is not None:
        lacking = ", ".join(known.once.unmodelled)
        return known.once, f"the work of {lacking} is not modelled" if lacking else None
    if time.instruction is None or module is None:
        return (
            None,
            reason if time.instruction else "the profiler did not say which instruction it belongs to",
        )
    if time.kind == "control":
        return None, "what runs inside it is counted there"
    if time.category.endswith(("-done", "-update")):
        return Cost(), "its work is counted where it starts"
    return None, "its module has no such instruction"


def _about(time: OperationTime, module: ModuleCost | None, known: OperationCost | None) -> dict[str, Any]:
    return {
        "name": time.name,
        "module": time.module,
        "fingerprint": module.fingerprint if module else None,
        "category": time.category,
        "kind": time.kind,
        "operation_name": known.operation_name if known else "",
        "scope": known.scope if known else "",
        "source": known.source if known else "",
        "kernels": list(time.kernels),
        "count": 0,
        "executions": 0,
        "devices": 0,
    }


def _about_module(time: OperationTime, module: ModuleCost | None) -> dict[str, Any]:
    return {
        "name": time.module,
        "fingerprint": module.fingerprint if module else None,
        "devices": set(),
        "runs": None,
        "runs_reason": "the trace does not tell how often it ran",
    }


def _add_runs(about: dict[str, Any], runs: int | None, reason: str | None) -> None:
    if runs is not None:
        about["runs"] = (about["runs"] or 0) + runs
        about["runs_reason"] = reason


def _ranked(parts: Iterable[tuple[dict[str, Any], Work]]) -> Any:
    held = sorted(parts, key=lambda part: -part[1].seconds)
    return lambda busy: [{**about, **work.figures(busy)} for about, work in held]


def _label(row: Mapping[str, Any]) -> str:
    """The bottleneck of one operation, in the words of a step's."""
    if row["kind"] in LABELS:
        return LABELS[row["kind"]]
    if row["flops"] is None or row["bound_seconds"] is None:
        return "unmodelled" if row["flops"] is None else "unknown"
    limit: Literal["compute", "memory"] = "compute" if row["bound"] == "compute" else "memory"
    bound = Bound(None, None, None, None, row["bound_seconds"], limit)
    return label_of_busy(bound, row["self_seconds"], complete=not row["unmodelled"])


def _device(device: DeviceTrace, peaks: Peaks, whole: Work) -> dict[str, Any]:
    used = model_flops_utilization(whole.cost, device.span_seconds, peaks)
    return {
        "name": device.name,
        "host": device.host,
        "platform": device.platform,
        "device_kind": device.kind,
        "span_seconds": device.span_seconds,
        "busy_seconds": device.busy_seconds,
        "idle_seconds": device.idle_seconds,
        "compute_seconds": device.compute_seconds,
        "collective_seconds": device.collective_seconds,
        "exposed_communication_seconds": device.exposed_communication_seconds,
        "transfer_seconds": device.transfer_seconds,
        "exposed_transfer_seconds": device.exposed_transfer_seconds,
        "mfu": used.mfu,
        "hfu": used.hfu,
        "mfu_reason": used.reason,
        **{
            name: value
            for name, value in whole.figures(device.busy_seconds).items()
            if name in {"flops", "bytes", "bound_seconds", "efficiency", "unmodelled_seconds", "exact"}
        },
        "capabilities": dict(device.capabilities),
        "peaks": peaks.to_dict(),
        "notes": list(device.notes),
    }


def _host(host: Any) -> dict[str, Any]:
    return {
        "name": host.name,
        "versions": dict(host.versions),
        "events": host.events,
        "started_unix_ns": host.start_unix_ns,
        "stopped_unix_ns": host.stop_unix_ns,
        "steps": [
            {
                "name": step.name,
                "number": step.number,
                "start_seconds": step.start_seconds,
                "seconds": step.seconds,
            }
            for step in host.steps
        ],
        "notes": list(host.notes),
    }
