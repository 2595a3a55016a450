"""The roof of a device: what work of an element type can attain, as two lines and as points over intensity."""

from __future__ import annotations

from typing import Final, NamedTuple

from jaxobs.hardware.peaks import Peaks

CEILING_POINTS: Final = 40
_LEAST_INTENSITY: Final = 2.0**-7  # FLOP/byte; a copy with one addition for each 16-byte element has 2**-5
_MOST_INTENSITY: Final = 2.0**14  # FLOP/byte; a product of 16 384-wide float8 matrices has 2**13.4


class Roof(NamedTuple):
    """What work of an element type can attain: the smaller of `flops_per_second` and intensity × `bytes_per_second`."""

    dtype: str
    flops_per_second: float
    bytes_per_second: float


def roof(peaks: Peaks, dtype: str) -> Roof | None:
    """The two lines that bound work of an element type; None where the compute or the memory peak is unknown.

    The compute peak is that of the matrix unit, or of the vector units for a type without a matrix peak; for float32 it
    is the peak of the type that JAX's default precision runs in.
    """
    runs_in = next(iter(peaks.types_run_in({dtype: 1.0}, {"default": 1.0})), dtype)
    peak, memory = peaks.matrix_peak(runs_in) or peaks.vector_peak(dtype), peaks.memory_rate(None)
    return None if peak is None or memory is None else Roof(dtype, peak.value, memory)


def ceiling(peaks: Peaks, dtype: str) -> tuple[tuple[float, float], ...]:
    """The roof as points (FLOP/byte, attainable FLOP/s) at log-spaced intensities; empty where `roof` gives none."""
    above = roof(peaks, dtype)
    if above is None:
        return ()
    step = (_MOST_INTENSITY / _LEAST_INTENSITY) ** (1 / (CEILING_POINTS - 1))
    intensities = [_LEAST_INTENSITY * step**index for index in range(CEILING_POINTS)]
    return tuple(
        (intensity, min(intensity * above.bytes_per_second, above.flops_per_second))
        for intensity in intensities
    )
