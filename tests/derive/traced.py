"""Made-up profiler windows and traces for the fold."""

from __future__ import annotations

from typing import Any

from jaxobs.cost_model import module_cost
from jaxobs.derive.fold import Fold
from jaxobs.derive.profiler_windows.windows import WindowToRead
from jaxobs.model.cost import Cost, ModuleCost, OperationCost
from jaxobs.model.events import Event, ProfileWindow
from jaxobs.model.trace import DeviceTrace, ModuleTime, OperationTime, StretchTime, Trace
from jaxobs.roofline_model.traced import Profiled, join
from tests.derive.made_up import (
    PEAKS,
    applied,
    at,
    backend,
    check,
    created,
    new_fold,
    step,
)


def window(start: float, end: float, xspace: bytes | None = b"trace", outcome: str = "read") -> ProfileWindow:
    return ProfileWindow("scheduled", outcome, at(start), at(end), 1_000_000, xspace, "", "")


def modules_of(trace: Trace) -> Any:
    def find(host: str, program_id: int | None) -> ModuleCost | str:
        proto = trace.module(host, program_id)
        return "its module is not in the trace" if proto is None else module_cost(proto)

    return find


def read(fold: Fold, told: WindowToRead, trace: Trace, modules: Any) -> Profiled:
    """What the agent's worker does."""
    joined = join(
        trace, modules, {(one.host, one.name): told.peaks for one in trace.devices}, told.working_sets
    )
    fold.profiles.read(told, joined)
    return joined


def operation(
    name: str, seconds: float, *, runs: int, kind: Any = "compute", instruction: bool = True
) -> OperationTime:
    return OperationTime(
        name, name if instruction else None, "jit_f", 1, name, kind, runs, runs, seconds, seconds, seconds / runs,
    )  # fmt: skip


def device(
    operations: list[OperationTime], *, name: str = "/device:GPU:0", runs: int = 10, seconds: float = 1.0,
    gap: float = 0.0, waiting: tuple[float, float] | None = None,
) -> DeviceTrace:  # fmt: skip
    """A device in whose window the steps of `train` took `seconds`. `waiting`: for input, and the device busy then."""
    busy = sum(one.charged_seconds for one in operations)
    charged = tuple(one.charged_seconds for one in operations)
    stretches = {"train": StretchTime(seconds, busy, gap, charged, 0.0)}
    if waiting is not None:
        stretches["train\0input"] = StretchTime(waiting[0], waiting[1], 0.0, charged, 0.0)
    return DeviceTrace(
        name, "host", "gpu", "example", {}, seconds, busy, seconds - busy, gap, busy, 0.0, 0.0, 0.0, 0.0,
        tuple(operations), (ModuleTime("jit_f", 1, runs, "run ids", busy),), stretches=stretches,
    )  # fmt: skip


def trace_of(*devices: DeviceTrace, calls: dict[str, int] | None = None) -> Trace:
    """`calls` of jitted functions in the steps of `train`."""
    from jaxobs.model.trace import HostTrace

    called = {"train": calls} if calls else {}
    return Trace((HostTrace("host", devices, {1: b"module"}, {}, calls=called),))


def cost_of(*operations: tuple[str, Cost, float], exact: bool = True, fingerprint: str = "abc") -> ModuleCost:
    parts = tuple(
        OperationCost(name, name, "", "layer", "model.py:1", times, once) for name, once, times in operations
    )
    cost = sum((part.cost for part in parts), Cost())
    if not exact:
        cost = Cost(cost.matrix_flops_by_type, bytes=cost.bytes, exact=False, inexact_reasons=("loop w",))
    return ModuleCost(fingerprint, cost, parts)


COMPUTE = Cost(matrix_flops_by_type={"float32": 1e10}, bytes=1e6)  # 10 ms at 1 TFLOP/s
MEMORY = Cost(bytes=1e9)  # 10 ms at 100 GB/s
TINY = Cost(bytes=1e3)
SLOW = Cost(matrix_flops_by_type={"float32": 1e9}, bytes=1e3)  # 1 ms


def fold_with_steps(*events: Event, count: int = 40, seconds: float = 0.1, **more: Any) -> Fold:
    """A loop from second 1 on that marks its steps and watches nothing; `events` come before."""
    fold = applied(new_fold(), [backend(), created(1, devices=2), *events])
    fold.bind_peaks("example", PEAKS)
    for number in range(count):
        fold.apply(step(number, 1 + number * seconds, 1 + (number + 1) * seconds, **more))
    return fold


def profiled_fold(operations: list[OperationTime], module: ModuleCost, **more: Any) -> Fold:
    fold = fold_with_steps()
    fold.analysed(1, module)
    fold.apply(window(2.0, 3.0))
    (told,) = fold.profiles.to_read(at(5))
    read(fold, told, trace_of(device(operations, **more)), lambda *_: module)
    return fold


def loop_of(fold: Fold, now: float = 5.1) -> dict[str, Any]:
    snapshot = fold.snapshot(at(now))
    check(snapshot, {})
    found: dict[str, Any] = snapshot.to_dict()["loops"]["train"]
    return found
