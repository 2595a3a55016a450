"""Time and modelled work of an operation, a module, a scope or a device, summed up over their parts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

from jaxobs.model.cost import Cost, inexact_for
from jaxobs.model.trace import Kind, OperationTime
from jaxobs.roofline_model.bottleneck import LONGEST_LATENCY, Modelled, label_of_busy
from jaxobs.roofline_model.bounds import CACHE, PARTS, PEAK, Bound, Efficiency, efficiency, total_bound

LABELS: Final = {"collective": "communication", "transfer": "transfer", "control": "latency"}
"""Bottlenecks that follow from the kind of an operation. The own time of `control`, a loop's or conditional's, is what
the operations in it leave."""

SLOWEST_WORK: Final = 500.0
"""How many times its bound time work can take that is done slowly: ten times the most that was seen of the operations of
fifteen training programs (52, flax_linen's and Keras's on a CPU). A product of 8 × 8 whose processor is taken away for a
few milliseconds takes 100 000 times as long."""

BESIDE_OTHERS: Final = (
    "it ran beside other operations, and its equal part of those moments may be less "
    "than what the device gave it"
)
WITHHELD: Final = "its bound is {:.3g} times its time: they contradict each other, or its time is elsewhere"
HIDDEN_BEHIND_OTHERS: Final = "it ran only beside operations to which that time is charged"


@dataclass(slots=True)
class Work:
    """Time and modelled work of an operation, or of anything that operations make up."""

    seconds: float = 0.0
    """Charged time: moments in which several operations ran are divided among them, so that it adds up to busy time."""
    self_seconds: float = 0.0
    """Time as if each operation had run alone: where operations overlap, this adds up to more than the busy time."""
    executions: int = 0
    at_best_seconds: float = 0.0
    """Self time if each execution had been as short as the shortest, which nothing disturbed."""
    cost: Cost = field(default_factory=Cost)
    bounds: list[Bound] = field(default_factory=list)
    unmodelled_seconds: float = 0.0
    reasons: dict[str, None] = field(default_factory=dict)
    kinds: set[Kind] = field(default_factory=set)

    def add(self, time: OperationTime, cost: Cost | None, bound: Bound | None, reason: str | None) -> None:
        self.seconds += time.charged_seconds
        self.self_seconds += time.self_seconds
        self.executions += time.executions
        fastest = None if time.fastest_seconds is None else time.fastest_seconds * time.executions
        self.at_best_seconds += time.self_seconds if fastest is None else min(fastest, time.self_seconds)
        self.kinds.add(time.kind)
        nothing_known = bound is None or (bound.unknown and bound.seconds is None)
        if nothing_known and time.kind not in LABELS:
            self.unmodelled_seconds += time.charged_seconds
        if cost is not None and bound is not None:
            self.cost += cost
            self.bounds.append(bound)
        if reason:
            self.reasons[reason] = None

    def merge(self, other: Work) -> None:
        """Add the work of the same operation in another trace."""
        self.seconds += other.seconds
        self.self_seconds += other.self_seconds
        self.executions += other.executions
        self.at_best_seconds += other.at_best_seconds
        self.cost += other.cost
        bounds = [*self.bounds, *other.bounds]
        # One for each limit: that of their sum depends on how much of it each limits.
        limits = dict.fromkeys(bound.limit for bound in bounds)
        self.bounds = [total_bound(each for each in bounds if each.limit == limit) for limit in limits]
        self.unmodelled_seconds += other.unmodelled_seconds
        self.reasons |= other.reasons
        self.kinds |= other.kinds

    def bound(self) -> Bound:
        """The least time of all of it; that of collectives alone is the link's."""
        bound = total_bound(self.bounds)
        return bound.of_link() if self.kinds == {"collective"} else bound

    def label(self, kind: str) -> str:
        """The bottleneck of an operation of that kind, by the same words as a step's.

        Its shortest executions are compared with its bound, so that losing a core for a while, or a first touch of
        memory, makes no `latency`. Where even these take more than LONGEST_LATENCY, launching and waiting cannot be the
        reason: it does its work slowly, or does work that is not modelled, such as integer arithmetic. Beyond
        SLOWEST_WORK it waits for something else, such as a processor that other programs use.
        """
        if kind in LABELS and not (kind == "control" and self.bounds):
            return LABELS[kind]
        if not self.bounds:
            return "unmodelled"
        bound = total_bound(self.bounds)
        if bound.seconds is None and not bound.missing and not self.cost.unmodelled:
            # It took time, and there is no work in it: a core waits for a copy that another operation began.
            label = "memory" if kind == "copy" else "latency"
        else:
            label = label_of_busy(Modelled(bound, self.cost.exact), self.at_best_seconds)
        if label != "latency" or self.at_best_seconds <= LONGEST_LATENCY * self.executions:
            return label
        floating = self.cost.flops > 0 or self.cost.transcendentals > 0
        if not floating or bound.limit is None or bound.seconds is None:
            return "unmodelled"
        return bound.limit if self.at_best_seconds <= SLOWEST_WORK * bound.seconds else "unknown"

    def efficiency(self, busy: float) -> Efficiency:
        """Bound time over charged time, which adds up alike for operations, what they are part of, and devices.

        A value above 1 may only mean that operations beside it were charged their equal part of its moments. The time
        that it really took is at most its self time and at most the `busy` seconds: where the bound is longer than
        either, it was beaten for certain. A value that contradicts the peak is withheld, as an executable's is.
        """
        found = efficiency(self.bound(), self.seconds)
        if found.value is None and self.bounds and self.self_seconds > 0 and not self.seconds > 0:
            return Efficiency(None, HIDDEN_BEHIND_OTHERS, None)
        if found.value is None or found.value <= 1:
            return found
        bound = self.bound()
        assert bound.seconds is not None
        beside = bound.seconds <= min(self.self_seconds, busy)
        reason, limit = (BESIDE_OTHERS, bound.limit) if beside else (found.reason, found.limit)
        if found.value <= (CACHE if limit == "cache_resident" else PEAK):
            return Efficiency(found.value, reason, limit)
        return Efficiency(None, BESIDE_OTHERS if beside else WITHHELD.format(found.value), bound.limit)

    def figures(self, busy: float) -> dict[str, Any]:
        """Figures for JSON. Rates, efficiency and the share of `busy` are of charged time, which `seconds` is."""
        known = bool(self.bounds)
        bound = self.bound()
        reached = self.efficiency(busy)
        flops, seconds, inexact = self.cost.flops, self.seconds, self.cost.inexact_reasons
        counted = known and bool(flops or not self.cost.unmodelled)
        why = (reached.reason or (inexact_for(inexact) if inexact else None)) if known else None
        reasons = dict.fromkeys(filter(None, [*self.reasons, why]))
        return {
            "seconds": seconds,
            "self_seconds": self.self_seconds,
            "share": seconds / busy if busy else None,
            "flops": flops if counted else None,
            "matrix_flops": self.cost.matrix_flops if counted else None,
            "executed_matrix_flops_by_type": dict(self.cost.executed_matrix_flops_by_type) if known else None,
            "bytes": self.cost.bytes if known else None,
            "collective_bytes": sum(self.cost.collective_bytes.values()) if known else None,
            "intensity": self.cost.intensity if known else None,
            "achieved_flops_per_second": flops / seconds if known and flops and seconds else None,
            "achieved_bytes_per_second": self.cost.bytes / seconds if known and seconds else None,
            "bound_seconds": bound.seconds,
            "efficiency": reached.value if known else None,
            "efficiency_reason": why,
            "bound": reached.limit if known else None,
            "unmodelled_seconds": self.unmodelled_seconds,
            "exact": self.cost.exact if known else None,
            "unmodelled": list(self.cost.unmodelled),
            "reason": "; ".join(reasons) or None,
        }


def repeated(bound: Bound, executions: float) -> Bound:
    """The bound of `executions` runs of the work, one after another."""
    times = {name: getattr(bound, name) for name in (*PARTS, "seconds")}
    return replace(bound, **{name: time * executions for name, time in times.items() if time is not None})
