"""`jaxobs calibrate`: each measured peak over the datasheet's, for what a library reaches of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from benchmarks.gpu_check.place import Place, jaxobs
from benchmarks.truths import Figure
from jaxobs.hardware.calibration import Calibration, fastest
from jaxobs.hardware.known_peaks import peaks_for

SECONDS = 10.0
SECONDS_OF_A_CPU = 2.0

MATRIX = 0.55, 1.02
"""Of the datasheet. On one H200 a bfloat16 product of 8192 ran at 0.80 of it: the limit of power lowers the clocks."""

BESIDE_CUBLAS = {"float8_e5m2": (0.1, 1.02)}
"""What no tuned library multiplies: cuBLASLt takes no product of two E5M2 (cuBLAS documentation, cublasLtMatmul). What
the code that XLA makes of it reaches is not known beforehand."""

MEMORY = 0.8, 1.0
"""On one H200 a copy ran at 0.90 of it, bytes read and written."""

UNITS = 0.4, 1.05
"""Vector units and special functions: no library tunes these, and XLA's code does other work beside."""


def calibration(place: Place) -> Iterator[Figure]:
    """Measure, and compare."""
    seconds = SECONDS if place.on_gpu else SECONDS_OF_A_CPU
    # Kept beside the results, and not where the jobs of this machine would find it.
    said = jaxobs("calibrate", "--seconds", str(seconds), "--json", JAXOBS_CACHE_DIRECTORY=str(place.folder))
    place.evidence("calibration.json").write_text(said, encoding="utf-8")
    found = Calibration.from_dict(json.loads(said))
    yield Figure("device kind", found.device_kind, place.device_kind)
    yield Figure("seconds it took", found.seconds, unit="s")
    sheet = peaks_for(place.device_kind, place.platform)
    for dtype, rate in sorted(fastest(found.matrix).items()):
        between = BESIDE_CUBLAS.get(dtype, MATRIX)
        yield _against(f"matrix {dtype}", rate.per_second, sheet.matrix_peak(dtype), between)
    for dtype, rate in sorted(fastest(found.vector).items()):
        yield _against(f"vector {dtype}", rate.per_second, sheet.vector_peak(dtype), UNITS)
    for dtype, rate in sorted(fastest(found.transcendentals).items()):
        peak = sheet.transcendentals if dtype == "float32" else None
        yield _against(f"transcendentals {dtype}", rate.per_second, peak, UNITS)
    for largest, per_second in found.memory_by_working_set()[-1:]:  # no cache holds it
        yield _against(f"memory, {largest / 2**20:.0f} MiB", per_second, sheet.memory, MEMORY)
    for left_out in found.left_out:
        yield Figure(f"matrix {left_out.dtype}", reason=left_out.reason)


def _against(name: str, found: float, peak: Any, between: tuple[float, float]) -> Figure:
    if peak is None:
        return Figure(name, found, unit="/s")
    note = f"{found:.4g} over {peak.value:.4g}"
    return Figure(f"{name}, over the datasheet", found / peak.value, between=between, note=note)
