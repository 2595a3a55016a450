"""Peaks: what one device can do, each value with where it came from.

In the order in which they win: the user's own values, the datasheet of a chip whose `device_kind` is known,
then what `jaxobs calibrate` measured. What none of them says is absent, with a reason that says how to supply it.
"""

from __future__ import annotations

import bisect
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from jaxobs.hardware.chips import GIBIBYTE, MEMORY_SLICES, Chip, chips_by_alias, normalised
from jaxobs.hardware.float32_products import float32_products, types_run_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxobs.hardware.calibration import Calibration, LeftOut

Provenance = Literal["datasheet", "measured", "profiler", "user"]

_MIG: Final = re.compile(r"(?P<chip>.+) mig (?P<profile>\dg\.(?P<memory>\d+)gb)")
_PLAIN_KEYS: Final = ("transcendentals", "memory", "link", "capacity")
_FAMILIES: Final = {"float8_": "float8", "float4_": "float4"}
_PARTS: Final = {"complex64": "float32", "complex128": "float64", "uint8": "int8", "uint4": "int4"}


@dataclass(frozen=True, slots=True)
class Peak:
    """One value, positive and finite, and who says so."""

    value: float
    provenance: Provenance
    source: str

    def __post_init__(self) -> None:
        if not (math.isfinite(self.value) and self.value > 0):
            raise ValueError(f"a peak is a positive, finite number, not {self.value!r} ({self.source})")

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"value": self.value, "provenance": self.provenance, "source": self.source}


@dataclass(frozen=True, slots=True)
class Peaks:
    """What one JAX device can do. What is not known is absent (None, or no key), and `reason` says why."""

    device_kind: str
    matrix: Mapping[str, Peak]
    """FLOP/s of the matrix unit by element type, dense; `tensorfloat32`: float32 products so rounded."""
    vector: Mapping[str, Peak]
    """FLOP/s of the vector units by element type."""
    transcendentals: Peak | None
    """Results of transcendental functions a second, in float32."""
    memory: Peak | None
    """Bytes/s of device memory, read and written together."""
    memory_by_working_set: tuple[tuple[float, float], ...]
    """(working-set bytes, bytes/s) by growing set where it was measured, else empty."""
    link: Peak | None
    """Bytes/s that the device can send to its peers, one way."""
    memory_capacity: float | None
    """Bytes of device memory."""
    reason: str | None
    """Why values are absent, and what supplies them; None where compute and memory peaks are known."""
    float32_products: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """For the precision that a program asks of float32 products (`default`, `high`, `highest`) the type in which the
    device multiplies, and in how many passes. A precision that is not here: float32, in one."""
    latency_seconds: float | None = None
    """From calling an executable that does next to nothing to its result, where it was measured."""

    def memory_rate(self, working_set_bytes: float | None) -> float | None:
        """Bytes/s for data of this size; main memory's where the size is not given, or no positive number.

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

    def types_run_in(
        self, flops: Mapping[str, float], by_precision: Mapping[str, float], *, passes: bool = True
    ) -> dict[str, float]:
        """Matrix FLOPs by the type in which this device multiplies, times the passes it takes.

        Args:
            flops: By the type in which the products were asked for, or compiled.
            by_precision: Those of them in float32 (and complex64) whose precision was left to the device, as
                `Cost.float32_flops_by_precision` has them; the rest in float32 are as with `highest`.
            passes: False leaves those that take several as they are, and the sum that of `flops`.
        """
        return types_run_in(self.float32_products, flops, by_precision, passes=passes)

    def vector_peak(self, dtype: str) -> Peak | None:
        """The vector units' peak for an element type as JAX spells it."""
        return self.vector.get(dtype) or self.vector.get(peak_key(dtype))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a snapshot; an absent value is None, with `reason` beside it."""
        return {
            "device_kind": self.device_kind,
            "matrix": {dtype: peak.to_dict() for dtype, peak in self.matrix.items()},
            "vector": {dtype: peak.to_dict() for dtype, peak in self.vector.items()},
            "transcendentals": self.transcendentals.to_dict() if self.transcendentals else None,
            "memory": self.memory.to_dict() if self.memory else None,
            "memory_by_working_set": [list(point) for point in self.memory_by_working_set],
            "link": self.link.to_dict() if self.link else None,
            "memory_capacity": self.memory_capacity,
            "float32_products": {
                precision: {"type": dtype, "passes": passes}
                for precision, (dtype, passes) in self.float32_products.items()
            },
            "latency_seconds": self.latency_seconds,
            "reason": self.reason,
        }


def peak_key(dtype: str) -> str:
    """The element type under which a peak is kept: a complex type's parts, one name for all 8-bit floats."""
    family = next((name for prefix, name in _FAMILIES.items() if dtype.startswith(prefix)), dtype)
    return _PARTS.get(family, family)


def user_peaks(matrix: Mapping[str, float], memory: float | None) -> dict[str, float]:
    """The settings `peak_flops` and `peak_bytes_per_second` as the overrides that `peaks_for` takes."""
    known = {} if memory is None else {"memory": memory}
    return known | {f"matrix.{dtype}": rate for dtype, rate in matrix.items()}


def peaks_for(
    device_kind: str,
    platform: str,
    overrides: Mapping[str, float] | None = None,
    measured: Calibration | None = None,
    *,
    tensorfloat32_allowed: bool | None = None,
) -> Peaks:
    """Peaks of one device.

    Args:
        device_kind: The string that JAX reports.
        platform: JAX's name of the backend: `cpu`, `gpu`, `tpu`.
        overrides: The user's own values, keyed `matrix.<dtype>`, `vector.<dtype>` (FLOP/s), `transcendentals`
            (results/s), `memory`, `link` (bytes/s), `capacity` (bytes).
        measured: A calibration of this kind of device; one of another kind is left aside.
        tensorfloat32_allowed: True where all float32 products may run as TensorFloat-32, so that this is the peak for
            them; False where none may; None where that is as the program's precision and the platform say.

    Raises:
        ValueError: An override has an unknown key, or is no positive, finite number.
    """
    same = measured is not None and normalised(measured.device_kind) == normalised(device_kind)
    mine = measured if same else None
    found, notes = _datasheet(device_kind)
    own = {key: Peak(rate, "user", "settings") for key, rate in _checked(overrides or {}).items()}
    known = {**found, **own}
    # A datasheet's or a user's `float8` says more than a measured `float8_e4m3fn`.
    measured_values = _measured(mine) if mine else {}
    values = {key: peak for key, peak in measured_values.items() if _shared_key(key) not in known} | known
    for left_out in mine.left_out if mine else ():
        _run_as(left_out, values)
    if tensorfloat32_allowed and "matrix.float32" not in own and "matrix.tensorfloat32" in values:
        values["matrix.float32"] = values["matrix.tensorfloat32"]
    memory = values.get("memory")
    capacity = values.get("capacity")
    return Peaks(
        device_kind=device_kind,
        matrix=_unit(values, "matrix"),
        vector=_unit(values, "vector"),
        transcendentals=values.get("transcendentals"),
        memory=memory,
        memory_by_working_set=(
            mine.memory_by_working_set() if mine and memory and memory.provenance == "measured" else ()
        ),
        link=values.get("link"),
        memory_capacity=capacity.value if capacity else None,
        reason=_reason(device_kind, platform, values, notes),
        float32_products=float32_products(device_kind, platform, values, own, tensorfloat32_allowed),
        latency_seconds=mine.latency_seconds if mine else None,
    )


def _datasheet(device_kind: str) -> tuple[dict[str, Peak], str | None]:
    """Values of the datasheet for one device, and a note where they are not all there."""
    name = normalised(device_kind)
    slice_of = _MIG.fullmatch(name)
    chip = chips_by_alias().get(slice_of["chip"] if slice_of else name)
    if chip is None:
        return {}, None
    if slice_of:
        return _slice(chip, slice_of["profile"], int(slice_of["memory"]))
    share = f", one of {chip.devices_per_chip} devices of the chip" if chip.devices_per_chip > 1 else ""
    return {
        key: Peak(rate / chip.devices_per_chip, "datasheet", chip.sources[key] + share)
        for key, rate in chip.values.items()
    }, None


def _slice(chip: Chip, profile: str, memory_gibibytes: int) -> tuple[dict[str, Peak], str | None]:
    """Values of a MIG slice: memory by slices of eight, compute only where its multiprocessors are known.

    A slice of "one seventh" has 16 of an H100's 132 multiprocessors, 0.85 of a seventh, and others differ as
    much, so the nominal fraction is not taken for a peak. A slice cannot use NVLink.
    """
    capacity, cores = chip.values.get("capacity"), chip.slices.get(profile, {}).get("cores")
    found: dict[str, Peak] = {}
    slices = round(memory_gibibytes / (capacity / GIBIBYTE / MEMORY_SLICES)) if capacity else 0
    if capacity and 1 <= slices <= MEMORY_SLICES:
        rate = chip.slices.get(profile, {}).get("memory") or chip.values["memory"] * slices / MEMORY_SLICES
        part = f", MIG slice with {slices} of {MEMORY_SLICES} parts of the memory"
        found["memory"] = Peak(rate, "datasheet", chip.sources["memory"] + part)
        found["capacity"] = Peak(
            capacity * slices / MEMORY_SLICES, "datasheet", chip.sources["capacity"] + part
        )
    if cores and chip.cores:
        part = f", MIG slice with {cores:g} of {chip.cores} multiprocessors"
        found |= {
            key: Peak(rate * cores / chip.cores, "datasheet", chip.sources[key] + part)
            for key, rate in chip.values.items()
            if key.startswith(("matrix.", "vector.")) or key == "transcendentals"
        }
        return found, None
    return found, f"how many multiprocessors the MIG slice {profile} of {chip.name} has is not known"


def _measured(calibration: Calibration) -> dict[str, Peak]:
    said = f"jaxobs calibrate, jaxlib {calibration.jaxlib}, {calibration.cores} cores"
    if calibration.disturbed:
        said += f", while others took {calibration.other_load:.1f} cores"
    found = {
        f"matrix.{dtype}": Peak(rate.per_second, "measured", f"{said}, product of {rate.size} × {rate.size}")
        for dtype, rate in calibration.best_matrix().items()
    }
    found |= {
        f"vector.{dtype}": Peak(rate.per_second, "measured", f"{said}, multiply-adds on {rate.size} elements")
        for dtype, rate in calibration.best_vector().items()
    }
    exponential = calibration.best_transcendentals().get("float32")
    if exponential:
        found["transcendentals"] = Peak(exponential.per_second, "measured", f"{said}, exp of float32")
    points = calibration.memory_by_working_set()
    if points:
        found["memory"] = Peak(points[-1][1], "measured", f"{said}, passes over {points[-1][0]:.0f} bytes")
    return found


def _shared_key(key: str) -> str:
    unit, _, dtype = key.partition(".")
    return f"{unit}.{peak_key(dtype)}" if dtype else key


def _run_as(left_out: LeftOut, values: dict[str, Peak]) -> None:
    """A type whose products the compiler runs in another has that one's peak, where it has none of its own."""
    keys = f"matrix.{left_out.dtype}", f"matrix.{peak_key(left_out.dtype)}"
    other = values.get(f"matrix.{left_out.runs_as}")
    if other is not None and not any(key in values for key in keys):
        values[keys[0]] = Peak(
            other.value, other.provenance, f"{other.source}; {left_out.dtype} {left_out.reason}"
        )


def _checked(overrides: Mapping[str, float]) -> Mapping[str, float]:
    for key, rate in overrides.items():
        unit, _, dtype = key.partition(".")
        if key not in _PLAIN_KEYS and not (unit in {"matrix", "vector"} and dtype):
            known = "matrix.<dtype>, vector.<dtype>, " + ", ".join(_PLAIN_KEYS)
            raise ValueError(f"unknown peak {key!r}: the keys are {known}")
        if isinstance(rate, bool) or not (math.isfinite(rate) and rate > 0):
            raise ValueError(f"peak {key}={rate!r}: give a positive, finite number")
    return overrides


def _unit(values: Mapping[str, Peak], unit: str) -> dict[str, Peak]:
    return {key.partition(".")[2]: peak for key, peak in values.items() if key.startswith(f"{unit}.")}


def _reason(device_kind: str, platform: str, values: Mapping[str, Peak], note: str | None) -> str | None:
    known = {"compute": bool(_unit(values, "matrix")), "memory": "memory" in values}
    lacking = [word for word, there in known.items() if not there]
    if not lacking:
        return None
    if note is None:
        unmeasured = f"{device_kind!r} is a processor, whose peaks are not in any table: they are measured"
        note = unmeasured if platform == "cpu" else f"no datasheet is known for the device {device_kind!r}"
    return (
        f"no {' and '.join(lacking)} peaks: {note}; run `jaxobs calibrate` on this machine, "
        "or set JAXOBS_PEAK_FLOPS and JAXOBS_PEAK_BYTES_PER_SECOND"
    )
