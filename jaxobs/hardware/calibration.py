"""The result of `jaxobs calibrate` on one device, as plain data that survives a round trip through JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

SCHEMA_VERSION: Final = 1
_QUIET_MACHINE: Final = 0.25
"""Cores that other processes may use before a calibration counts as disturbed: on two cores, a load of 0.2 cost a tenth
of the best rates, and one of 1.3 half of them."""


class CalibrationError(ValueError):
    """The data cannot be read as a calibration by this version; the message says where it is wrong."""


@dataclass(frozen=True, slots=True)
class Rate:
    """One measured rate: the fastest sustained (median of a block of runs) over the measurement's rounds."""

    dtype: str
    size: int
    """Rows of the square matrices, or elements of the array."""
    per_second: float
    """FLOP/s (operations/s for integers), or transcendental results/s."""
    median_per_second: float
    """The same rate as the median over the rounds: the typical rate of a machine that is shared with others."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An element type without a peak, because this device's compiler makes no products in it."""

    dtype: str
    runs_as: str | None
    """The type that such a product runs in; None where the compiler refuses it."""
    reason: str
    """The reason as text that follows the type's name."""


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """Bytes/s, read and written, of passes over arrays that together take `working_set_bytes`."""

    working_set_bytes: int
    copy: float
    """`x *= s`: one array read and written, 2 N bytes (STREAM's count)."""
    triad: float
    """`x = x * s + y`: two arrays read and one written, 3 N bytes (STREAM's count)."""

    @property
    def best(self) -> float:
        """The higher of the two rates."""
        return max(self.copy, self.triad)


@dataclass(frozen=True, slots=True)
class Calibration:
    """Peaks measured on one JAX device, with the device, host and versions for which they hold."""

    device_kind: str
    platform: str
    """JAX's name of the backend: `cpu`, `gpu`, `tpu`."""
    processor: str
    """The host's processor model."""
    cores: int
    """Cores that this process may use."""
    jax: str
    jaxlib: str
    created: float
    """Wall-clock seconds since the epoch."""
    seconds: float
    """The duration of the measurement."""
    matrix: tuple[Rate, ...]
    """Rates of square matrix products, by element type and size. Those of integers count operations, not FLOPs."""
    vector: tuple[Rate, ...]
    """Rates of multiply-adds on data in cache, by element type."""
    transcendentals: tuple[Rate, ...]
    """Rates of `exp`, by element type."""
    bandwidth: tuple[Bandwidth, ...]
    """Bandwidths in the order of growing working sets."""
    latency_seconds: float | None
    """The time from the call of an executable that does almost nothing to its result."""
    other_load: float | None
    """Cores' worth of time that other processes used meanwhile; None where the system does not provide it."""
    left_out: tuple[LeftOut, ...] = ()
    """Element types of products that were not measured."""

    @property
    def disturbed(self) -> bool:
        """Whether other processes used so much of a processor that its peaks may be too low."""
        return self.platform == "cpu" and (self.other_load or 0.0) > _QUIET_MACHINE

    def best_matrix(self) -> dict[str, Rate]:
        """The fastest product of each element type."""
        return _best(self.matrix)

    def best_vector(self) -> dict[str, Rate]:
        """The fastest multiply-adds of each element type."""
        return _best(self.vector)

    def best_transcendentals(self) -> dict[str, Rate]:
        """The fastest `exp` of each element type."""
        return _best(self.transcendentals)

    def memory_by_working_set(self) -> tuple[tuple[float, float], ...]:
        """Pairs (working-set bytes, bytes/s) with falling rates: a set gets the best rate of any larger one.

        A smaller set sometimes measures slower, from noise or because XLA uses one thread for it. The device can do
        better, and a peak is what the device can do.
        """
        envelope: list[tuple[float, float]] = []
        best = 0.0
        for point in sorted(self.bandwidth, key=lambda point: -point.working_set_bytes):
            best = max(best, point.best)
            envelope.append((float(point.working_set_bytes), best))
        return tuple(reversed(envelope))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, with the version of its schema."""
        return {"schema": SCHEMA_VERSION, **asdict(self)}

    @classmethod
    def from_dict(cls, document: object) -> Calibration:
        """The calibration in a document that `to_dict` made. Raises CalibrationError for any other."""
        if not isinstance(document, Mapping):
            raise CalibrationError(f"expected a JSON object, found {type(document).__name__}")
        if document.get("schema") != SCHEMA_VERSION:
            raise CalibrationError(f"schema {document.get('schema')!r}, this version reads {SCHEMA_VERSION}")
        try:
            latency, load = document["latency_seconds"], document["other_load"]
            return cls(
                device_kind=_text(document["device_kind"]),
                platform=_text(document["platform"]),
                processor=_text(document["processor"]),
                cores=_count(document["cores"]),
                jax=_text(document["jax"]),
                jaxlib=_text(document["jaxlib"]),
                created=_rate(document["created"]),
                seconds=_rate(document["seconds"]),
                matrix=_rates(document["matrix"]),
                vector=_rates(document["vector"]),
                transcendentals=_rates(document["transcendentals"]),
                bandwidth=tuple(
                    Bandwidth(_count(point["working_set_bytes"]), _rate(point["copy"]), _rate(point["triad"]))
                    for point in document["bandwidth"]
                ),
                latency_seconds=None if latency is None else _rate(latency),
                other_load=None if load is None else _load(load),
                left_out=tuple(_left_out(entry) for entry in document.get("left_out", ())),
            )
        except KeyError as error:
            raise CalibrationError(f"the key {error} is missing") from None
        except (TypeError, ValueError) as error:
            raise CalibrationError(str(error)) from None


def _best(rates: tuple[Rate, ...]) -> dict[str, Rate]:
    best: dict[str, Rate] = {}
    for rate in rates:
        if rate.dtype not in best or rate.per_second > best[rate.dtype].per_second:
            best[rate.dtype] = rate
    return best


def _rates(points: Any) -> tuple[Rate, ...]:
    return tuple(
        Rate(
            dtype=_text(point["dtype"]),
            size=_count(point["size"]),
            per_second=_rate(point["per_second"]),
            median_per_second=_rate(point["median_per_second"]),
        )
        for point in points
    )


def _left_out(entry: Any) -> LeftOut:
    runs_as = entry["runs_as"]
    return LeftOut(_text(entry["dtype"]), None if runs_as is None else _text(runs_as), _text(entry["reason"]))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise CalibrationError(f"expected a string, found {value!r}")
    return value


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise CalibrationError(f"expected a positive integer, found {value!r}")
    return value


def _rate(value: object) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf:
        return float(value)
    raise CalibrationError(f"expected a positive, finite number, found {value!r}")


def _load(value: object) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf:
        return float(value)
    raise CalibrationError(f"expected a number that is not negative, found {value!r}")
