"""The facts in the document of `jaxobs analyze`: the trace as one stretch of time, its operations as the work in it."""

from __future__ import annotations

from collections.abc import Iterator

from jaxobs.derive.advice.facts import (
    LEAST_CONFIDENCE,
    Facts,
    LoopFacts,
    OperationFacts,
    WindowFacts,
    WorkFacts,
)
from jaxobs.derive.advice.reading import Document, named, number, numbers, ratio, rows, text


def facts_of_trace(document: Document) -> Facts:
    """Shares are of the time between each device's first and last event, all devices together.

    The confidence is the share of busy time whose work is modelled.
    """
    devices = rows(document, "devices")
    spans = [number(device, "span_seconds") for device in devices]
    span = sum(amount or 0.0 for amount in spans)
    unmodelled = ratio(document, "unmodelled_share")
    if not span or None in spans or unmodelled is None or 1 - unmodelled < LEAST_CONFIDENCE:
        return Facts()
    first, confidence = devices[0], 1 - unmodelled
    one_kind = len({text(device, "device_kind") for device in devices}) == 1
    return Facts(
        (_whole(document, devices, span, confidence),),
        tuple(_work(document, span, confidence)),
        tuple(_operations(document)),
        _matrix_peaks(first) if one_kind else {},
        number(first, "peaks", "memory", "value") or None if one_kind else None,
    )


def _whole(document: Document, devices: list[Document], span: float, confidence: float) -> LoopFacts:
    exposed = [number(device, "exposed_communication_seconds") for device in devices]
    gap, busy = (
        sum(number(device, name) or 0.0 for device in devices) for name in ("gap_seconds", "busy_seconds")
    )
    latency = gap + sum(
        number(row, "seconds") or 0.0
        for row in rows(document, "operations")
        if text(row, "label") == "latency"
    )
    shares = {"latency": latency / span}
    if None not in exposed:
        shares["communication"] = sum(amount or 0.0 for amount in exposed) / span
    shares = {word: share for word, share in shares.items() if share <= 1}
    steps = max((len(rows(host, "steps")) for host in rows(document, "hosts")), default=0)
    each = steps * len(devices)
    window = WindowFacts(float(steps), busy / each, latency / each, gap / each) if each else None
    return LoopFacts("trace", 1.0, shares, confidence, None, window, is_trace=True)


def _work(document: Document, span: float, confidence: float) -> list[WorkFacts]:
    found = []
    for row in rows(document, "operations"):
        name, label, seconds = text(row, "name"), text(row, "label"), number(row, "seconds")
        amounts = [number(row, word) for word in ("flops", "matrix_flops", "bytes")]
        if not (name and label and seconds) or None in amounts or row.get("exact") is not True:
            continue
        flops, matrix, moved = (amount or 0.0 for amount in amounts)
        found.append(
            WorkFacts(
                {"function": text(row, "module") or "", "operation": name},
                min(1.0, seconds / span),
                label,
                confidence,
                seconds,
                flops,
                matrix,
                moved,
                numbers(row, "executed_matrix_flops_by_type"),
            )
        )
    return found


def _operations(document: Document) -> Iterator[OperationFacts]:
    for row in rows(document, "operations"):
        executions, seconds = number(row, "executions"), number(row, "seconds")
        if executions and seconds:
            latency, control = text(row, "label") == "latency", text(row, "kind") == "control"
            yield OperationFacts(executions, seconds, number(row, "share"), control, latency)


def _matrix_peaks(device: Document) -> dict[str, float]:
    """FLOP/s of the matrix unit by element type."""
    known = {dtype: number(peak, "value") for dtype, peak in named(device, "peaks", "matrix").items()}
    return {dtype: rate for dtype, rate in known.items() if rate}
