"""The result of `jaxobs calibrate` as tables, each rate beside the datasheet's where the device has one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from jaxobs.hardware.peak_sources import peaks_for
from jaxobs.hardware.peaks import Peak, peak_key
from jaxobs.report.units import byte_size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxobs.hardware.calibration import Calibration, Rate


def print_table(calibration: Calibration, console: Console | None = None) -> None:
    """Print what was measured, on standard output where no console is given."""
    console = console or Console()
    peaks = peaks_for(calibration.device_kind, calibration.platform)
    console.print(
        f"{calibration.device_kind} on {calibration.processor}, {calibration.cores} cores, "
        f"jaxlib {calibration.jaxlib}, measured for {calibration.seconds:.1f} s",
        soft_wrap=True,
    )
    rates = Table("unit", "element type", "rate", "at size", "of datasheet")
    _add(rates, "matrix", calibration.best_matrix(), peaks.matrix, "FLOP/s", "{0} × {0}")
    _add(rates, "vector", calibration.best_vector(), peaks.vector, "FLOP/s", "{0} elements")
    special = {"float32": peaks.transcendentals} if peaks.transcendentals else {}
    _add(rates, "exp", calibration.best_transcendentals(), special, "/s", "{0} elements")
    console.print(rates)
    for left_out in calibration.left_out:
        console.print(f"{left_out.dtype} {left_out.reason}", soft_wrap=True)
    memory = Table("working set", "copy", "triad", "of datasheet")
    for point in calibration.bandwidth:
        share = _share(point.best, peaks.memory)
        memory.add_row(
            byte_size(point.working_set_bytes), _gigabytes(point.copy), _gigabytes(point.triad), share
        )
    console.print(memory)
    if calibration.latency_seconds is not None:
        console.print(f"latency of an empty executable: {calibration.latency_seconds * 1e6:.1f} µs")
    if calibration.disturbed:
        console.print(
            f"Other processes took {calibration.other_load:.1f} cores meanwhile: these peaks may be too low. "
            "Calibrate again when the machine is quiet.",
            soft_wrap=True,
        )


def _add(
    table: Table, unit: str, best: Mapping[str, Rate], peaks: Mapping[str, Peak], measure: str, size: str
) -> None:
    for dtype, rate in best.items():
        share = _share(rate.per_second, peaks.get(dtype) or peaks.get(peak_key(dtype)))
        # Integer work is no FLOP.
        per = measure.replace("FLOP", "OP") if "int" in dtype else measure
        table.add_row(unit, dtype, _scaled(rate.per_second, per), size.format(rate.size), share)


def _share(rate: float, peak: Peak | None) -> str:
    return f"{rate / peak.value:.0%}" if peak else "–"


def _scaled(rate: float, measure: str) -> str:
    prefix, power = ("T", 1e12) if rate >= 1e12 else ("G", 1e9)
    return f"{rate / power:.3g} {prefix}{measure}"


def _gigabytes(rate: float) -> str:
    return f"{rate / 1e9:.1f} GB/s"
