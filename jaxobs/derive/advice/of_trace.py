"""The facts in a recorded trace: the whole trace stands for a loop, and its operations for the loop's work."""

from __future__ import annotations

from collections.abc import Iterator

from jaxobs.derive.advice.facts import (
    LEAST_CONFIDENCE,
    Facts,
    LoopFacts,
    OperationFacts,
    WindowFacts,
    WorkFacts,
    matrix_peaks,
)
from jaxobs.roofline_model.traced import Profiled


def facts_of_trace(profiled: Profiled, steps: int) -> Facts:
    """The facts in a trace, empty where too little is known. `steps`: how many steps the program marked in it.

    Shares are of the time between each device's first and last event, summed over devices. The confidence is the share
    of busy time whose work is modelled.
    """
    devices, busy = profiled.devices, profiled.busy_seconds
    span = sum(device.trace.span_seconds for device in devices)
    if not span or not busy:
        return Facts()
    confidence = 1 - sum(device.work.unmodelled_seconds for device in devices) / busy
    if confidence < LEAST_CONFIDENCE:
        return Facts()
    peaks = devices[0].peaks if len({device.trace.kind for device in devices}) == 1 else None
    return Facts(
        (_whole(profiled, steps, span, confidence),),
        tuple(_work(profiled, span, confidence)),
        tuple(_operations(profiled, busy)),
        matrix_peaks(peaks),
        peaks.memory.value if peaks and peaks.memory else None,
    )


def _whole(profiled: Profiled, steps: int, span: float, confidence: float) -> LoopFacts:
    traces = [device.trace for device in profiled.devices]
    gap = sum(trace.gap_seconds for trace in traces)
    slow = (
        operation.work.seconds for operation in profiled.operations.values() if operation.label == "latency"
    )
    latency = gap + sum(slow)
    exposed = sum(trace.exposed_communication_seconds for trace in traces)
    shares = {"latency": latency / span, "communication": exposed / span}
    shares = {word: share for word, share in shares.items() if share <= 1}
    each = steps * len(traces)
    window = WindowFacts(profiled.busy_seconds / each, latency / each, gap / each) if each else None
    return LoopFacts("trace", 1.0, shares, confidence, None, window, is_trace=True)


def _work(profiled: Profiled, span: float, confidence: float) -> Iterator[WorkFacts]:
    for operation in profiled.operations.values():
        work, cost = operation.work, operation.work.cost
        if work.seconds and work.bounds and cost.exact:
            yield WorkFacts(
                {"function": operation.module or "", "operation": operation.name},
                min(1.0, work.seconds / span),
                operation.label,
                confidence,
                work.seconds,
                cost.flops,
                cost.matrix_flops,
                cost.bytes,
                cost.executed_matrix_flops_by_type,
            )


def _operations(profiled: Profiled, busy: float) -> Iterator[OperationFacts]:
    for operation in profiled.operations.values():
        seconds = operation.work.seconds
        if operation.executions and seconds:
            control = operation.kind == "control"
            yield OperationFacts(
                operation.executions, seconds, seconds / busy, control, operation.label == "latency"
            )
