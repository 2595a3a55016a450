"""`jaxobs calibrate`: each measured peak over the datasheet's, for what a library reaches of it."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.gpu_check.findings import Findings, jaxobs
from jaxobs.hardware.calibration import Calibration, fastest
from jaxobs.hardware.known_peaks import peaks_for
from jaxobs.hardware.peaks import Peaks

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


def calibration(told: Findings) -> None:
    """Measure, and compare."""
    seconds = SECONDS if told.on_gpu else SECONDS_OF_A_CPU
    # Kept beside the results, and not where the jobs of this machine would find it.
    place = {"JAXOBS_CACHE_DIRECTORY": str(told.folder)}
    said = jaxobs("calibrate", "--seconds", str(seconds), "--json", **place)
    told.evidence("calibration.json").write_text(said, encoding="utf-8")
    found = Calibration.from_dict(json.loads(said))
    told.figure("device kind", found.device_kind, told.device_kind)
    told.figure("seconds it took", found.seconds, unit="s")
    sheet = peaks_for(told.device_kind, told.platform)
    for dtype, rate in sorted(fastest(found.matrix).items()):
        between = BESIDE_CUBLAS.get(dtype, MATRIX)
        _against(told, f"matrix {dtype}", rate.per_second, sheet.matrix_peak(dtype), between)
    for dtype, rate in sorted(fastest(found.vector).items()):
        _against(told, f"vector {dtype}", rate.per_second, sheet.vector_peak(dtype), UNITS)
    for dtype, rate in sorted(fastest(found.transcendentals).items()):
        peak = sheet.transcendentals if dtype == "float32" else None
        _against(told, f"transcendentals {dtype}", rate.per_second, peak, UNITS)
    _memory(told, found, sheet)
    for left_out in found.left_out:
        told.unmeasured(f"matrix {left_out.dtype}", left_out.reason)


def _memory(told: Findings, found: Calibration, sheet: Peaks) -> None:
    points = found.memory_by_working_set()
    if not points:
        told.unmeasured("memory", "no working set was measured")
        return
    largest, rate = points[-1]
    _against(told, f"memory, {largest / 2**20:.0f} MiB", rate, sheet.memory, MEMORY)
    for working_set, rate in points[:2]:
        told.figure(f"memory, {working_set / 2**20:g} MiB, which may be in cache", rate, unit="B/s")


def _against(told: Findings, name: str, found: float, peak: Any, between: tuple[float, float]) -> None:
    if peak is None:
        told.figure(name, found, unit="/s")
        return
    told.figure(
        f"{name}, over the datasheet", found / peak.value, between=between,
        source=f"{found:.4g} over {peak.value:.4g}",
    )  # fmt: skip
