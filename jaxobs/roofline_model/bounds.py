"""The roofline: the least time that a cost can take at a device's peaks, and how near a measured time came.

The model is that of Williams, Waterman and Patterson, "Roofline: an insightful visual performance model for
multicore architectures", CACM 52(4), 2009, with a ceiling for each unit of the device instead of one for all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

from jaxobs.hardware.peaks import Peak, Peaks
from jaxobs.model.cost import Cost


@dataclass(frozen=True, slots=True)
class Bound:
    """The least time that some work can take, by the unit that does it. A part without work takes 0 s.

    A part is None where there is work for it but no peak; where only some element types have a peak, it is the time of
    these. `missing` names what was left out, which makes the bound a lower one. An operation whose work is `unknown` has
    no bound.
    """

    matrix_seconds: float | None
    vector_seconds: float | None
    transcendental_seconds: float | None
    memory_seconds: float | None
    seconds: float | None
    """The largest known part of one operation, or the sum of operations' bounds; None where none is known."""
    limit: Literal["compute", "memory", "communication"] | None
    """Whether compute or memory sets `seconds`; over several operations, the one that limits the larger share of it. None
    where a missing peak could be that of the slower part. `communication`: these are collectives, bounded by the link."""
    missing: tuple[str, ...] = ()
    communication_seconds: float | None = 0.0
    """Time of collectives at the link's rate. It is not in `seconds`, since they may run beside the rest."""
    unknown: tuple[str, ...] = ()
    """Operations whose work is not known, and in no part: `Cost.unmodelled`."""

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
        if self.unknown and self.limit is None:
            return f"the work of {', '.join(self.unknown)} is not known"
        if self.missing:
            return "no peak for " + ", ".join(self.missing)
        return "no work was counted" if self.seconds is None else None

    def of_link(self) -> Bound:
        """The bound of the collectives in it, by the link's peak alone; the same as it is where nothing is sent."""
        missing = tuple(name for name in self.missing if name.startswith("link"))
        sent = None if missing else usable(self.communication_seconds)
        if sent is None and not missing:
            return self
        return replace(self, seconds=sent, limit="communication" if sent else None, missing=missing)


PARTS: Final = (
    "matrix_seconds", "vector_seconds", "transcendental_seconds", "memory_seconds", "communication_seconds",
)  # fmt: skip
"""The fields of a bound that hold the time of one part."""


PEAK: Final = 1.5
"""Largest ratio to a peak. Clocks may be above the nominal one (by a third on processors), and a peak may have been
measured on a machine that was a little busy. A very busy machine gave a fifth of the true peak: nothing is shown
against such a peak."""

CACHE: Final = 30.0
"""Largest ratio to the memory peak where data stays in cache. `jaxobs calibrate` saw a factor of 8 between working sets
of 256 KiB and 256 MiB on two cores; a host with many cores has as many private caches for one memory."""


class Efficiency(NamedTuple):
    """Bound time over measured time; a value above 1 is not clamped."""

    value: float | None
    reason: str | None
    """Why there is no value, or what a value above 1 means."""
    limit: Literal["compute", "memory", "communication", "cache_resident"] | None
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
    sent = [seconds_of(f"link {kind}", size, link, missing) for kind, size in cost.collective_bytes.items()]
    compute = largest((matrix, vector, transcendental))
    seconds = None if cost.unmodelled else usable(largest((compute, memory)))
    limit: Literal["compute", "memory"] = "compute" if compute == seconds else "memory"
    other = "memory" if limit == "compute" else "matrix"
    return Bound(
        matrix_seconds=matrix,
        vector_seconds=vector,
        transcendental_seconds=transcendental,
        memory_seconds=memory,
        seconds=seconds,
        limit=None if seconds is None or any(name.startswith(other) for name in missing) else limit,
        missing=tuple(missing),
        communication_seconds=sum_known(sent),
        unknown=cost.unmodelled,
    )


def total_bound(bounds: Iterable[Bound]) -> Bound:
    """The bound of operations that run one after another: an executable's is the sum of its operations'.

    Bounds without `seconds` add nothing but the names of what they miss.
    """
    every = list(bounds)
    shares: dict[str | None, float] = dict.fromkeys(("compute", "memory", None), 0.0)
    for bound in every:
        if bound.seconds is not None:
            shares[bound.limit] += bound.seconds
    seconds = usable(sum(shares.values()))
    limit: Literal["compute", "memory"] = "compute" if shares["compute"] >= shares["memory"] else "memory"
    lead = shares[limit] - shares["memory" if limit == "compute" else "compute"]
    return Bound(
        **{name: sum_known([getattr(bound, name) for bound in every]) for name in PARTS},
        seconds=seconds,
        limit=None if seconds is None or lead < shares[None] else limit,
        missing=tuple(dict.fromkeys(name for bound in every for name in bound.missing)),
        unknown=tuple(dict.fromkeys(name for bound in every for name in bound.unknown)),
    )


def efficiency(bound: Bound, measured_seconds: float | None) -> Efficiency:
    """Bound time over measured time; None, with a reason, where either is no positive, finite number.

    None too where what limits the bound is not known: the time of what is missing could be most of it.
    """
    if bound.seconds is None or bound.limit is None:
        return Efficiency(None, bound.reason, None)
    measured = usable(measured_seconds)
    value = usable(bound.seconds / measured) if measured else None
    if value is None:
        why = f"the measured time, {measured_seconds} s, is no plausible number"
        return Efficiency(None, why, bound.limit)
    if value <= 1:
        return Efficiency(value, None, bound.limit)
    if bound.limit == "memory":
        return Efficiency(value, "faster than device memory allows: data stayed in cache", "cache_resident")
    peak = "link's" if bound.limit == "communication" else "compute"
    why = f"faster than the {peak} peak: that peak is too low, or the time too short"
    return Efficiency(value, why, bound.limit)


def executed_flops(cost: Cost, peaks: Peaks) -> dict[str, float]:
    """Matrix FLOPs by the type in which a device with these peaks multiplies, each pass counted."""
    compiled = cost.executed_matrix_flops_by_type or cost.matrix_flops_by_type
    return peaks.types_run_in(compiled, cost.executed_float32_flops_by_precision)


def asked_flops(
    cost: Cost, peaks: Peaks, *, passes: bool = True
) -> tuple[dict[str, float], dict[str, float]]:
    """Matrix FLOPs as the program asked for them, by the type that the device runs them in: all, and rematerialised.

    `passes` as in `Peaks.types_run_in`.
    """
    repeated = cost.rematerialized_flops_by_type, cost.rematerialized_float32_flops_by_precision
    return (
        peaks.types_run_in(cost.matrix_flops_by_type, cost.float32_flops_by_precision, passes=passes),
        peaks.types_run_in(*repeated, passes=passes),
    )


def run_on(cost: Cost, peaks: Peaks) -> Cost:
    """The cost with the types that the device runs its products in, which the module alone does not show."""
    return replace(cost, executed_matrix_flops_by_type=executed_flops(cost, peaks))


CEILING_POINTS: Final = 40
_LEAST_INTENSITY: Final = 2.0**-7  # FLOP/byte; a copy with one addition for each 16-byte element has 2**-5
_MOST_INTENSITY: Final = 2.0**14  # FLOP/byte; a product of 16 384-wide float8 matrices has 2**13.4


class Roof(NamedTuple):
    """What one kind of device can attain with one element type."""

    device_kind: str
    dtype: str
    flops_per_second: float
    bytes_per_second: float

    @property
    def ridge(self) -> float:
        """The intensity, FLOP/byte, from which on the roof is flat."""
        return self.flops_per_second / self.bytes_per_second

    def at(self, intensity: float) -> float:
        """FLOP/s that work of this intensity can attain."""
        return min(intensity * self.bytes_per_second, self.flops_per_second)


def roof(peaks: Peaks, dtype: str) -> Roof | None:
    """The two lines that bound work of an element type; None where the compute or the memory peak is unknown.

    The compute peak is that of the matrix unit, or of the vector units for a type without a matrix peak; for float32 it
    is the peak of the type that JAX's default precision runs in.
    """
    runs_in = next(iter(peaks.types_run_in({dtype: 1.0}, {"default": 1.0})), dtype)
    peak, memory = peaks.matrix_peak(runs_in) or peaks.vector_peak(dtype), peaks.memory_rate(None)
    return None if peak is None or memory is None else Roof(peaks.device_kind, dtype, peak.value, memory)


def ceiling(peaks: Peaks, dtype: str) -> tuple[tuple[float, float], ...]:
    """The roof as points (FLOP/byte, attainable FLOP/s) at log-spaced intensities; empty where `roof` gives none."""
    above = roof(peaks, dtype)
    if above is None:
        return ()
    step = (_MOST_INTENSITY / _LEAST_INTENSITY) ** (1 / (CEILING_POINTS - 1))
    intensities = [_LEAST_INTENSITY * step**index for index in range(CEILING_POINTS)]
    return tuple((intensity, above.at(intensity)) for intensity in intensities)


class Utilization(NamedTuple):
    """The share of the matrix peak that matrix FLOPs reached: those of the model (MFU), and all that ran (HFU)."""

    mfu: float | None
    hfu: float | None
    reason: str | None
    """Why one of them, or both, are absent."""


def model_flops_utilization(
    cost: Cost, seconds: float | None, peaks: Peaks, model_flops: float | None = None
) -> Utilization:
    """MFU and HFU over wall time (PaLM, arXiv:2204.02311, appendix B; HFU counts rematerialised work too).

    The FLOPs of each element type are compared with the peak of that type, as the program asked for it; float32 FLOPs
    whose precision the program left to the device, with the peak of the type that the device runs them in.

    Args:
        cost: Work on one device in `seconds`.
        seconds: Wall time, s.
        peaks: Of that device.
        model_flops: The user's own count of FLOPs on one device in `seconds`, for the MFU; shared out
            over the element types as the counted ones are.
    """
    missing: list[str] = []
    asked, rematerialized_flops = asked_flops(cost, peaks)
    hardware = typed_seconds("matrix", asked, peaks.matrix_peak, missing)
    rematerialized = typed_seconds("rematerialised matrix", rematerialized_flops, peaks.matrix_peak, missing)
    wall = usable(seconds)
    if missing:
        return Utilization(None, None, "no peak for " + ", ".join(dict.fromkeys(missing)))
    if not hardware:
        return Utilization(None, None, "no matrix work was counted")
    if wall is None:
        return Utilization(None, None, f"the wall time is no positive number: {seconds} s")
    model = hardware - (rematerialized or 0.0)
    if model_flops is not None:
        model = hardware * (usable(model_flops) or 0.0) / cost.matrix_flops
    mfu, hfu = usable(model / wall), usable(hardware / wall)
    amount = "the model's matrix work" if model_flops is None else f"the FLOPs given, {model_flops},"
    reason = None if mfu and hfu else f"{amount} over {wall} s is no positive number"
    if reason is None and max(mfu or 0.0, hfu or 0.0) > 1:
        reason = "above 1: the matrix peak is too low (measured while other work ran?), or the time too short"
    return Utilization(mfu, hfu, reason)


def typed_seconds(
    unit: str, amounts: Mapping[str, float], peak_of: Callable[[str], Peak | None], missing: list[str]
) -> float | None:
    """The time, s, of amounts of work by element type; a type whose time is not known is noted in `missing`."""
    parts = [
        seconds_of(f"{unit} {dtype}", amount, value_of(peak_of(dtype)), missing)
        for dtype, amount in amounts.items()
    ]
    return sum_known(parts)


def seconds_of(name: str, amount: float, rate: float | None, missing: list[str]) -> float | None:
    """The time, s, of an amount of work, 0 for no work; None, with `name` noted in `missing`, where it is not known."""
    if amount == 0:
        return 0.0
    if usable(amount) is None:
        missing.append(f"{name} (the amount is {amount})")
        return None
    if rate is None:
        missing.append(name)
        return None
    return amount / rate


def value_of(peak: Peak | None) -> float | None:
    """The peak's value; None where there is no peak."""
    return peak.value if peak else None


def usable(value: float | None) -> float | None:
    """The value if it is positive and finite, else None."""
    return value if value is not None and 0 < value < math.inf else None


def largest(parts: Iterable[float | None]) -> float | None:
    """The largest known part; None where none is known."""
    return max((part for part in parts if part is not None), default=None)


def sum_of_both(one: float | None, other: float | None) -> float | None:
    """The sum of two amounts; None where either is not known."""
    return None if one is None or other is None else one + other


def sum_known(parts: Sequence[float | None]) -> float | None:
    """The sum of the known parts; None where there are parts and none is known."""
    known = [part for part in parts if part is not None]
    return sum(known) if known or not parts else None
