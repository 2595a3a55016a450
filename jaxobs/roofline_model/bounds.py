"""The roofline: the least time that a cost can take at a device's peaks, and how near a measured time came.

The model is that of Williams, Waterman and Patterson, "Roofline: an insightful visual performance model for
multicore architectures", CACM 52(4), 2009, with a ceiling for each unit of the device instead of one for all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from jaxobs.roofline_model.execution_types import executed_flops

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from jaxobs.hardware.peaks import Peak, Peaks
    from jaxobs.model.cost import Cost

CEILING_POINTS: Final = 40
_LEAST_INTENSITY: Final = 2.0**-7  # FLOP/byte; a copy with one addition for each 16-byte element has 2**-5
_MOST_INTENSITY: Final = 2.0**14  # FLOP/byte; a product of 16 384-wide float8 matrices has 2**13.4


@dataclass(frozen=True, slots=True)
class Bound:
    """The least time some work can take, by the unit that does it. A part of no work takes 0 s.

    A part is None where there is work for it and no peak; where some element types have a peak and others do
    not, it is the time of those that do. `missing` names what was left out; the bound is then a lower one.
    """

    matrix_seconds: float | None
    vector_seconds: float | None
    transcendental_seconds: float | None
    memory_seconds: float | None
    seconds: float | None
    """The largest known part of one operation, or the sum of operations' bounds; None where none is known."""
    limit: Literal["compute", "memory"] | None
    """Which part that is; over several operations, the one that limits the larger share of the time."""
    missing: tuple[str, ...] = ()
    communication_seconds: float | None = 0.0
    """Collectives at the link's rate; no part of `seconds`, since they may run beside the rest."""

    @property
    def compute_seconds(self) -> float | None:
        """The largest known of the three compute parts."""
        return _largest((self.matrix_seconds, self.vector_seconds, self.transcendental_seconds))

    @property
    def reason(self) -> str | None:
        """Why there is no bound, or why it is a lower one; None where nothing was left out."""
        if self.missing:
            return "no peak for " + ", ".join(self.missing)
        return "no work was counted" if self.seconds is None else None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a snapshot."""
        return {
            "seconds": self.seconds,
            "limit": self.limit,
            "matrix_seconds": self.matrix_seconds,
            "vector_seconds": self.vector_seconds,
            "transcendental_seconds": self.transcendental_seconds,
            "memory_seconds": self.memory_seconds,
            "communication_seconds": self.communication_seconds,
            "missing": list(self.missing),
            "reason": self.reason,
        }


class Roof(NamedTuple):
    """What work of an element type can attain: the smaller of `flops_per_second` and intensity × `bytes_per_second`."""

    dtype: str
    flops_per_second: float
    bytes_per_second: float


class Efficiency(NamedTuple):
    """Bound time over measured time, as it is: above 1 it is not clamped."""

    value: float | None
    reason: str | None
    """Why there is no value, or what a value above 1 means."""
    limit: Literal["compute", "memory", "cache_resident"] | None
    """What bounds the work; `cache_resident` where it was faster than device memory allows."""


class Utilization(NamedTuple):
    """Share of the matrix peak that the matrix FLOPs took: of the model (MFU), and of all that ran (HFU)."""

    mfu: float | None
    hfu: float | None
    reason: str | None
    """Why one of them, or both, are absent."""


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
    matrix = _typed_seconds("matrix", executed, peaks.matrix_peak, missing)
    vector = _typed_seconds("vector", cost.vector_flops_by_type, peaks.vector_peak, missing)
    transcendental = _seconds("transcendentals", cost.transcendentals, _value(peaks.transcendentals), missing)
    memory = _seconds("memory", cost.bytes, peaks.memory_rate(working_set_bytes), missing)
    link = _value(peaks.link)
    sent = [_seconds(f"link {kind}", amount, link, missing) for kind, amount in cost.collective_bytes.items()]
    compute = _largest((matrix, vector, transcendental))
    seconds = _usable(_largest((compute, memory)))
    return Bound(
        matrix_seconds=matrix,
        vector_seconds=vector,
        transcendental_seconds=transcendental,
        memory_seconds=memory,
        seconds=seconds,
        limit=None if seconds is None else "compute" if compute == seconds else "memory",
        missing=tuple(missing),
        communication_seconds=_sum_known(sent),
    )


def total_bound(bounds: Iterable[Bound]) -> Bound:
    """The bound of operations that run one after another: an executable's is the sum of its operations'.

    Bounds without `seconds` add nothing but the names of what they miss.
    """
    shares = {"compute": 0.0, "memory": 0.0}
    matrix, vector, transcendental, memory, communication = sums = [_KnownSum() for _ in range(5)]
    missing: dict[str, None] = {}
    for bound in bounds:
        if bound.limit is not None and bound.seconds is not None:
            shares[bound.limit] += bound.seconds
        parts = (
            bound.matrix_seconds, bound.vector_seconds, bound.transcendental_seconds, bound.memory_seconds,
            bound.communication_seconds,
        )  # fmt: skip
        for total, part in zip(sums, parts, strict=True):
            total.add(part)
        if bound.missing:
            missing.update(dict.fromkeys(bound.missing))
    seconds = _usable(sum(shares.values()))
    return Bound(
        matrix_seconds=matrix.value,
        vector_seconds=vector.value,
        transcendental_seconds=transcendental.value,
        memory_seconds=memory.value,
        seconds=seconds,
        limit=None if seconds is None else "compute" if shares["compute"] >= shares["memory"] else "memory",
        missing=tuple(missing),
        communication_seconds=communication.value,
    )


def efficiency(bound: Bound, measured_seconds: float | None) -> Efficiency:
    """Bound time over measured time; absent with a reason where either is no positive, finite number."""
    measured = _usable(measured_seconds)
    if bound.seconds is None:
        return Efficiency(None, bound.reason, None)
    if measured is None:
        return Efficiency(None, f"the measured time is no positive number: {measured_seconds} s", bound.limit)
    value = _usable(bound.seconds / measured)
    if value is None:
        return Efficiency(None, f"bound {bound.seconds} s over {measured} s is out of range", bound.limit)
    if value <= 1:
        return Efficiency(value, None, bound.limit)
    if bound.limit == "memory":
        return Efficiency(value, "faster than device memory allows: data stayed in cache", "cache_resident")
    return Efficiency(
        value, "faster than the compute peak: that peak is too low, or the time is", bound.limit
    )


def attainable_flops_per_second(
    cost: Cost, peaks: Peaks, working_set_bytes: float | None = None
) -> tuple[float | None, str | None]:
    """FLOP/s if the work took its bound time; None with a reason where there is no bound, or no FLOP.

    The reason is also given where the bound is a lower one, so that the rate is an upper one.
    """
    bound = bound_time(cost, peaks, working_set_bytes)
    flops = _usable(cost.flops)
    if flops is None:
        return None, f"no floating-point work: {cost.flops} FLOP"
    if bound.seconds is None:
        return None, bound.reason
    return _usable(flops / bound.seconds), bound.reason


def model_flops_utilization(
    cost: Cost, seconds: float | None, peaks: Peaks, model_flops: float | None = None
) -> Utilization:
    """MFU and HFU over wall time (PaLM, arXiv:2204.02311, appendix B; HFU counts rematerialised work too).

    Each element type's FLOPs are set against its own peak, that of the type the program asked for; those in float32 whose
    precision it left to the device, against the peak of what the device takes for it.

    Args:
        cost: Work on one device in `seconds`.
        seconds: Wall time, s.
        peaks: Of that device.
        model_flops: The user's own count of FLOPs on one device in `seconds`, for the MFU; shared out
            over the element types as the counted ones are.
    """
    missing: list[str] = []
    asked = peaks.types_run_in(cost.matrix_flops_by_type, cost.float32_flops_by_precision)
    repeated = peaks.types_run_in(
        cost.rematerialized_flops_by_type, cost.rematerialized_float32_flops_by_precision
    )
    hardware = _typed_seconds("matrix", asked, peaks.matrix_peak, missing)
    again = _typed_seconds("rematerialised matrix", repeated, peaks.matrix_peak, missing)
    wall = _usable(seconds)
    if missing:
        return Utilization(None, None, "no peak for " + ", ".join(dict.fromkeys(missing)))
    if not hardware:
        return Utilization(None, None, "no matrix work was counted")
    if wall is None:
        return Utilization(None, None, f"the wall time is no positive number: {seconds} s")
    model: float | None = hardware - (again or 0.0)
    if model_flops is not None:
        model = hardware * model_flops / cost.matrix_flops if _usable(model_flops) else None
    mfu, hfu = _usable(model / wall if model is not None else None), _usable(hardware / wall)
    amount = "the model's matrix work" if model_flops is None else f"the FLOPs given, {model_flops},"
    reason = None if mfu and hfu else f"{amount} over {wall} s is no positive number"
    if reason is None and max(mfu or 0.0, hfu or 0.0) > 1:
        reason = "above 1: the matrix peak is too low (measured while other work ran?), or the time is"
    return Utilization(mfu, hfu, reason)


def ceiling(peaks: Peaks, dtype: str, points: int = CEILING_POINTS) -> tuple[tuple[float, float], ...]:
    """The roof: (FLOP/byte, attainable FLOP/s) at log-spaced intensities from 2**-7 to 2**14.

    Empty where `roof` knows none. Raises ValueError for fewer than two points.
    """
    if points < 2:
        raise ValueError(f"a ceiling has at least two points, not {points}")
    above = roof(peaks, dtype)
    if above is None:
        return ()
    step = (_MOST_INTENSITY / _LEAST_INTENSITY) ** (1 / (points - 1))
    intensities = [_LEAST_INTENSITY * step**index for index in range(points)]
    return tuple(
        (intensity, min(intensity * above.bytes_per_second, above.flops_per_second))
        for intensity in intensities
    )


def roof(peaks: Peaks, dtype: str) -> Roof | None:
    """The two lines that bound work of an element type; None where the compute or the memory peak is unknown.

    The first is that of the matrix unit, or of the vector units for a type the matrix unit has no peak for; for float32
    that of JAX's default precision.
    """
    runs_in = next(iter(peaks.types_run_in({dtype: 1.0}, {"default": 1.0})), dtype)
    peak, memory = peaks.matrix_peak(runs_in) or peaks.vector_peak(dtype), peaks.memory_rate(None)
    return None if peak is None or memory is None else Roof(dtype, peak.value, memory)


def _typed_seconds(
    unit: str, amounts: Mapping[str, float], peak_of: Callable[[str], Peak | None], missing: list[str]
) -> float | None:
    parts = [
        _seconds(f"{unit} {dtype}", amount, _value(peak_of(dtype)), missing)
        for dtype, amount in amounts.items()
    ]
    return _sum_known(parts)


def _seconds(name: str, amount: float, rate: float | None, missing: list[str]) -> float | None:
    """Time of an amount of work; 0 for none, and None, with its name noted, for what cannot be told."""
    if amount == 0:
        return 0.0
    if _usable(amount) is None:
        missing.append(f"{name} (the amount is {amount})")
        return None
    if rate is None:
        missing.append(name)
        return None
    return amount / rate


def _value(peak: Peak | None) -> float | None:
    return peak.value if peak else None


def _usable(value: float | None) -> float | None:
    """The value if it is positive and finite, else None."""
    return value if value is not None and 0 < value < math.inf else None


def _largest(parts: Iterable[float | None]) -> float | None:
    return max((part for part in parts if part is not None), default=None)


def _sum_known(parts: Iterable[float | None]) -> float | None:
    """The sum of what is known; None where there are parts and none is."""
    total = _KnownSum()
    for part in parts:
        total.add(part)
    return total.value


class _KnownSum:
    """The same, part by part."""

    __slots__ = ("_known", "_parts", "_total")

    def __init__(self) -> None:
        self._parts = self._known = 0
        self._total = 0.0

    def add(self, part: float | None) -> None:
        self._parts += 1
        if part is not None:
            self._known += 1
            self._total += part

    @property
    def value(self) -> float | None:
        return self._total if self._known or not self._parts else None
