"""The peaks of a device, each with its source, and their lookup by element type and working set."""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal

Provenance = Literal["datasheet", "measured", "profiler", "user"]

_FAMILIES: Final = {"float8_": "float8", "float4_": "float4"}
_SINGLE: Final = ("float32", "complex64")
_PARTS: Final = {"complex64": "float32", "complex128": "float64", "uint8": "int8", "uint4": "int4"}


@dataclass(frozen=True, slots=True)
class Peak:
    """A positive, finite peak rate or size with its source."""

    value: float
    provenance: Provenance
    source: str

    def __post_init__(self) -> None:
        if not (math.isfinite(self.value) and self.value > 0):
            raise ValueError(f"a peak is a positive, finite number, not {self.value!r} ({self.source})")


@dataclass(frozen=True, slots=True)
class Peaks:
    """The peaks of one JAX device. Unknown ones are absent (None, or no key), and `reason` says why."""

    device_kind: str
    matrix: Mapping[str, Peak]
    """FLOP/s of the matrix unit by element type, dense; `tensorfloat32`: float32 products rounded to that type."""
    vector: Mapping[str, Peak]
    """FLOP/s of the vector units by element type."""
    transcendentals: Peak | None
    """Results of transcendental functions a second, in float32."""
    memory: Peak | None
    """Bytes/s of device memory, read and written together."""
    memory_by_working_set: tuple[tuple[float, float], ...]
    """Pairs (working-set bytes, bytes/s) by growing working set where measured, else empty."""
    link: Peak | None
    """Bytes/s that the device can send to its peers, one way."""
    memory_capacity: float | None
    """Bytes of device memory."""
    reason: str | None
    """Why values are absent, and how to supply them; None if compute and memory peaks are known."""
    float32_products: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """For each precision that a program requests of float32 products (`default`, `high`, `highest`), the type in which
    the device multiplies, and the number of passes. Other precisions run in float32 in one pass."""
    shared_by: int = 1
    """The number of emulated devices that share one machine; each measured peak is then an equal share of its peak."""

    def memory_rate(self, working_set_bytes: float | None) -> float | None:
        """Bytes/s for data of this size; main memory's where the size is None or not a positive number.

        Between two measured sizes the rate is interpolated on logarithmic axes.
        """
        points = self.memory_by_working_set
        if not points or working_set_bytes is None or not (0 < working_set_bytes < math.inf):
            return self.memory.value if self.memory else None
        at = bisect.bisect_left(points, working_set_bytes, key=lambda point: point[0])
        if at == 0 or at == len(points):
            return points[min(at, len(points) - 1)][1]
        (small, fast), (large, slow) = points[at - 1], points[at]
        share = math.log(working_set_bytes / small) / math.log(large / small)
        return math.exp(math.log(fast) + share * (math.log(slow) - math.log(fast)))

    def matrix_peak(self, dtype: str) -> Peak | None:
        """The matrix unit's peak for an element type as JAX spells it; `float8_e4m3fn` is a `float8`."""
        return self.matrix.get(dtype) or self.matrix.get(peak_key(dtype))

    def share(self, devices: int) -> Peaks:
        """The peaks of one of `devices` that share what was measured; values that the user set hold for each as set."""

        def part(peak: Peak) -> Peak:
            if peak.provenance != "measured":
                return peak
            source = f"{peak.source}, one of {devices} emulated devices that share it"
            return replace(peak, value=peak.value / devices, source=source)

        return replace(
            self,
            matrix={dtype: part(peak) for dtype, peak in self.matrix.items()},
            vector={dtype: part(peak) for dtype, peak in self.vector.items()},
            transcendentals=self.transcendentals and part(self.transcendentals),
            memory=self.memory and part(self.memory),
            # All devices' sets lie in the caches together.
            memory_by_working_set=tuple(
                (size / devices, rate / devices) for size, rate in self.memory_by_working_set
            ),
            shared_by=devices,
        )

    def types_run_in(
        self, flops: Mapping[str, float], by_precision: Mapping[str, float], *, passes: bool = True
    ) -> dict[str, float]:
        """Matrix FLOPs by the type in which this device multiplies, times the number of passes.

        Args:
            flops: By the type in which the products were written, or compiled.
            by_precision: Those of them in float32 (and complex64) that may run in a faster type, as in
                `Cost.float32_flops_by_precision`; the rest in float32 are treated as `highest`.
            passes: False leaves products of several passes in float32, so that the sum remains that of `flops`.
        """
        if self.device_kind == "cpu" or not (self.float32_products or any(map(_of_algorithm, by_precision))):
            return dict(flops)
        found = {dtype: amount for dtype, amount in flops.items() if dtype not in _SINGLE}
        left = sum(flops.get(dtype, 0.0) for dtype in _SINGLE)
        for precision, asked in (*by_precision.items(), ("highest", math.inf)):
            amount = min(asked, left)
            left -= amount
            dtype, times = self.float32_products.get(precision) or _of_algorithm(precision) or ("float32", 1)
            if not passes and times > 1:
                dtype, times = "float32", 1
            if amount:
                found[dtype] = found.get(dtype, 0.0) + amount * times
        return found

    def vector_peak(self, dtype: str) -> Peak | None:
        """The vector units' peak for an element type as JAX spells it."""
        return self.vector.get(dtype) or self.vector.get(peak_key(dtype))

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON; an absent value is None, with its reason beside it."""
        document = {
            **asdict(self),
            "memory_by_working_set": [list(point) for point in self.memory_by_working_set],
            "float32_products": {
                precision: {"type": dtype, "passes": passes}
                for precision, (dtype, passes) in self.float32_products.items()
            },
        }
        absent = [name for name, value in document.items() if value is None and name != "reason"]
        reason = self.reason or "not known of this kind of device"
        return document | {f"{name}_reason": reason for name in absent}


def _of_algorithm(precision: str) -> tuple[str, int] | None:
    """The type and passes of an algorithm, as `bfloat16_x3`; None for other precisions."""
    dtype, _, passes = precision.partition("_x")
    return (dtype, int(passes)) if passes else None


def peak_key(dtype: str) -> str:
    """The element type under which a peak is stored: a complex type's parts, one name for all 8-bit floats."""
    family = next((name for prefix, name in _FAMILIES.items() if dtype.startswith(prefix)), dtype)
    return _PARTS.get(family, family)
