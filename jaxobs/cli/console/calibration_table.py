"""Writes the result of `jaxobs calibrate` as tables, each rate beside the datasheet's where there is one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jaxobs.hardware.calibration import Calibration, Rate
from jaxobs.hardware.peak_sources import peaks_for
from jaxobs.hardware.peaks import Peak, peak_key
from jaxobs.report.text_table import TextTable
from jaxobs.report.units import ABSENT, amount, byte_size, duration, rough_percent


def calibration_parts(calibration: Calibration) -> Iterator[TextTable | str]:
    """A calibration as lines and tables."""
    peaks = peaks_for(calibration.device_kind, calibration.platform)
    yield (
        f"{calibration.device_kind} on {calibration.processor}, {calibration.cores} cores, "
        f"jaxlib {calibration.jaxlib}, measured for {calibration.seconds:.1f} s"
    )
    rates = TextTable(("unit", "element type", "rate", "at size", "of datasheet"), left=("element type",))
    _add(rates, "matrix", calibration.best_matrix(), peaks.matrix, "FLOP/s", "{0} × {0}")
    _add(rates, "vector", calibration.best_vector(), peaks.vector, "FLOP/s", "{0} elements")
    special = {"float32": peaks.transcendentals} if peaks.transcendentals else {}
    _add(rates, "exp", calibration.best_transcendentals(), special, "/s", "{0} elements")
    yield from ("", rates)
    yield from (f"{left_out.dtype} {left_out.reason}" for left_out in calibration.left_out)
    memory = TextTable(("working set", "copy", "triad", "of datasheet"))
    for point in calibration.bandwidth:
        bandwidths = (amount(rate, "B/s") for rate in (point.copy, point.triad))
        memory.add(byte_size(point.working_set_bytes), *bandwidths, _share(point.best, peaks.memory))
    yield from ("", memory, "")
    if calibration.latency_seconds is not None:
        yield f"latency of an empty executable: {duration(calibration.latency_seconds)}"
    if calibration.disturbed:
        yield (
            f"Other processes took {calibration.other_load:.1f} cores meanwhile: these peaks may be too low. "
            "Calibrate again when the machine is quiet."
        )


def _add(
    table: TextTable, unit: str, best: Mapping[str, Rate], peaks: Mapping[str, Peak], measure: str, size: str
) -> None:
    for dtype, rate in best.items():
        share = _share(rate.per_second, peaks.get(dtype) or peaks.get(peak_key(dtype)))
        # Integer work is no FLOP.
        per = measure.replace("FLOP", "OP") if "int" in dtype else measure
        table.add(unit, dtype, amount(rate.per_second, per), size.format(rate.size), share)


def _share(rate: float, peak: Peak | None) -> str:
    return rough_percent(rate / peak.value) if peak else ABSENT
