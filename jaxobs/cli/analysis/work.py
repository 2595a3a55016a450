"""Time and modelled work of an operation, a module, a scope or a device, summed up part by part."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from jaxobs.derive.roofline import Bound, efficiency, total_bound
from jaxobs.model.cost import Cost
from jaxobs.trace import OperationTime

LABELS: Final = {"collective": "communication", "transfer": "transfer", "control": "latency"}
"""Bottlenecks that follow from what an operation is."""


@dataclass(slots=True)
class Work:
    """Time and modelled work of something, summed up part by part."""

    seconds: float = 0.0
    """Charged: moments shared by several operations are divided between them."""
    self_seconds: float = 0.0
    cost: Cost = field(default_factory=Cost)
    bounds: list[Bound] = field(default_factory=list)
    unmodelled_seconds: float = 0.0
    reasons: dict[str, None] = field(default_factory=dict)

    def add(self, time: OperationTime, cost: Cost | None, bound: Bound | None, reason: str | None) -> None:
        self.seconds += time.charged_seconds
        self.self_seconds += time.self_seconds
        if cost is None or bound is None:
            if time.kind not in LABELS:
                self.unmodelled_seconds += time.charged_seconds
        else:
            self.cost += cost
            self.bounds.append(bound)
        if reason:
            self.reasons[reason] = None

    def figures(self, busy: float) -> dict[str, Any]:
        """Figures for JSON; rates over self time, share of `busy` seconds."""
        known = bool(self.bounds)
        bound = total_bound(self.bounds)
        near = efficiency(bound, self.self_seconds)
        flops, seconds = self.cost.flops, self.self_seconds
        reasons = list(self.reasons)
        if near.reason and near.reason not in reasons and known:
            reasons.append(near.reason)
        return {
            "seconds": self.seconds,
            "self_seconds": seconds,
            "share": self.seconds / busy if busy else None,
            "flops": flops if known else None,
            "matrix_flops": self.cost.matrix_flops if known else None,
            "bytes": self.cost.bytes if known else None,
            "collective_bytes": sum(self.cost.collective_bytes.values()) if known else None,
            "intensity": self.cost.intensity if known else None,
            "achieved_flops_per_second": flops / seconds if known and flops and seconds else None,
            "achieved_bytes_per_second": self.cost.bytes / seconds if known and seconds else None,
            "bound_seconds": bound.seconds,
            "efficiency": near.value if known else None,
            "bound": near.limit if known else None,
            "unmodelled_seconds": self.unmodelled_seconds,
            "exact": self.cost.exact if known else None,
            "unmodelled": list(self.cost.unmodelled),
            "reason": "; ".join(reasons) or None,
        }


def repeated(bound: Bound, executions: int) -> Bound:
    """The bound of so many executions, one after another."""

    def scaled(seconds: float | None) -> float | None:
        return None if seconds is None else seconds * executions

    return Bound(
        scaled(bound.matrix_seconds),
        scaled(bound.vector_seconds),
        scaled(bound.transcendental_seconds),
        scaled(bound.memory_seconds),
        scaled(bound.seconds),
        bound.limit,
        bound.missing,
        scaled(bound.communication_seconds),
    )
