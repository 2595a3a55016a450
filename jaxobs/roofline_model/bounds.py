"""The roofline: the least time that a cost can take at a device's peaks, and how near a measured time came.

The model is that of Williams, Waterman and Patterson, "Roofline: an insightful visual performance model for
multicore architectures", CACM 52(4), 2009, with a ceiling for each unit of the device instead of one for all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from jaxobs.hardware.peaks import Peaks
from jaxobs.model.cost import Cost
from jaxobs.roofline_model.execution_types import executed_flops
from jaxobs.roofline_model.known_values import (
    KnownSum,
    largest,
    seconds_of,
    sum_known,
    typed_seconds,
    usable,
    value_of,
)


@dataclass(frozen=True, slots=True)
class Bound:
    """The least time that some work can take, by the unit that does it. A part without work takes 0 s.

    A part is None where there is work for it but no peak; where only some element types have a peak, it is the time of
    these. `missing` names what was left out, which makes the bound a lower one.
    """

    matrix_seconds: float | None
    vector_seconds: float | None
    transcendental_seconds: float | None
    memory_seconds: float | None
    seconds: float | None
    """The largest known part of one operation, or the sum of operations' bounds; None where none is known."""
    limit: Literal["compute", "memory"] | None
    """Whether compute or memory sets `seconds`; over several operations, the one that limits the larger share of it."""
    missing: tuple[str, ...] = ()
    communication_seconds: float | None = 0.0
    """Time of collectives at the link's rate. It is not in `seconds`, since they may run beside the rest."""

    @property
    def compute_seconds(self) -> float | None:
        """The largest known of the three compute parts."""
        return largest((self.matrix_seconds, self.vector_seconds, self.transcendental_seconds))

    @property
    def knows_large_parts(self) -> bool:
        """Whether no peak is missing for matrix products or memory, whose time could dominate the rest."""
        return not any(name.startswith(("matrix", "memory")) for name in self.missing)

    @property
    def reason(self) -> str | None:
        """Why there is no bound, or why it is a lower one; None where nothing was left out."""
        if self.missing:
            return "no peak for " + ", ".join(self.missing)
        return "no work was counted" if self.seconds is None else None


PARTS: Final = (
    "matrix_seconds", "vector_seconds", "transcendental_seconds", "memory_seconds", "communication_seconds",
)  # fmt: skip
"""The fields of a bound that hold the time of one part."""


class Efficiency(NamedTuple):
    """Bound time over measured time; a value above 1 is not clamped."""

    value: float | None
    reason: str | None
    """Why there is no value, or what a value above 1 means."""
    limit: Literal["compute", "memory", "cache_resident"] | None
    """What bounds the work; `cache_resident` where it was faster than device memory allows."""


def bound_time(cost: Cost, peaks: Peaks, working_set_bytes: float | None = None) -> Bound:
    """The least time one operation can take: the slowest of its parts, as all units can work at once.

    Matrix work is charged at the peak of the type it runs in, where the compiler has changed the program's, or the device
    takes another for float32 (`Peaks.float32_products`).

    Args:
        cost: Work on one device. Amounts that are negative, NaN or infinite are left out and named.
        peaks: Of that device.
        working_set_bytes: Bytes used again and again, for the memory rate where it was measured by size.
    """
    missing: list[str] = []
    executed = executed_flops(cost, peaks)
    matrix = typed_seconds("matrix", executed, peaks.matrix_peak, missing)
    vector = typed_seconds("vector", cost.vector_flops_by_type, peaks.vector_peak, missing)
    transcendental = seconds_of(
        "transcendentals", cost.transcendentals, value_of(peaks.transcendentals), missing
    )
    memory = seconds_of("memory", cost.bytes, peaks.memory_rate(working_set_bytes), missing)
    link = value_of(peaks.link)
    sent = [
        seconds_of(f"link {kind}", amount, link, missing) for kind, amount in cost.collective_bytes.items()
    ]
    compute = largest((matrix, vector, transcendental))
    seconds = usable(largest((compute, memory)))
    return Bound(
        matrix_seconds=matrix,
        vector_seconds=vector,
        transcendental_seconds=transcendental,
        memory_seconds=memory,
        seconds=seconds,
        limit=None if seconds is None else "compute" if compute == seconds else "memory",
        missing=tuple(missing),
        communication_seconds=sum_known(sent),
    )


def total_bound(bounds: Iterable[Bound]) -> Bound:
    """The bound of operations that run one after another: an executable's is the sum of its operations'.

    Bounds without `seconds` add nothing but the names of what they miss.
    """
    shares = {"compute": 0.0, "memory": 0.0}
    sums = {name: KnownSum() for name in PARTS}
    missing: dict[str, None] = {}
    for bound in bounds:
        if bound.limit is not None and bound.seconds is not None:
            shares[bound.limit] += bound.seconds
        for name, total in sums.items():
            total.add(getattr(bound, name))
        if bound.missing:
            missing.update(dict.fromkeys(bound.missing))
    seconds = usable(sum(shares.values()))
    return Bound(
        **{name: total.value for name, total in sums.items()},
        seconds=seconds,
        limit=None if seconds is None else "compute" if shares["compute"] >= shares["memory"] else "memory",
        missing=tuple(missing),
    )


def efficiency(bound: Bound, measured_seconds: float | None) -> Efficiency:
    """Bound time over measured time; None, with a reason, where either is no positive, finite number."""
    measured = usable(measured_seconds)
    if bound.seconds is None:
        return Efficiency(None, bound.reason, None)
    if measured is None:
        return Efficiency(None, f"the measured time is no positive number: {measured_seconds} s", bound.limit)
    value = usable(bound.seconds / measured)
    if value is None:
        return Efficiency(None, f"bound {bound.seconds} s over {measured} s is out of range", bound.limit)
    if value <= 1:
        return Efficiency(value, None, bound.limit)
    if bound.limit == "memory":
        return Efficiency(value, "faster than device memory allows: data stayed in cache", "cache_resident")
    return Efficiency(
        value, "faster than the compute peak: that peak is too low, or the time is", bound.limit
    )
