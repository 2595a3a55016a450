"""The roof of a device over intensity, for drawings."""

from __future__ import annotations

from typing import Final

from jaxobs.hardware.peaks import Peaks

CEILING_POINTS: Final = 40
_LEAST_INTENSITY: Final = 2.0**-7  # FLOP/byte; a copy with one addition for each 16-byte element has 2**-5
_MOST_INTENSITY: Final = 2.0**14  # FLOP/byte; a product of 16 384-wide float8 matrices has 2**13.4


def ceiling(peaks: Peaks, dtype: str, points: int = CEILING_POINTS) -> tuple[tuple[float, float], ...]:
    """The roof: (FLOP/byte, attainable FLOP/s) at log-spaced intensities from 2**-7 to 2**14.

    It is that of the matrix unit, or of the vector units for a type the matrix unit has no peak for; of float32 that of
    JAX's default precision. Empty
    where the compute or the memory peak is unknown. Raises ValueError for fewer than two points.
    """
    if points < 2:
        raise ValueError(f"a ceiling has at least two points, not {points}")
    runs_in = next(iter(peaks.types_run_in({dtype: 1.0}, {"default": 1.0})), dtype)
    peak, memory = peaks.matrix_peak(runs_in) or peaks.vector_peak(dtype), peaks.memory_rate(None)
    if peak is None or memory is None:
        return ()
    step = (_MOST_INTENSITY / _LEAST_INTENSITY) ** (1 / (points - 1))
    intensities = [_LEAST_INTENSITY * step**index for index in range(points)]
    return tuple((intensity, min(intensity * memory, peak.value)) for intensity in intensities)
