"""Merges the sources of a device's peaks.

In order of precedence: the user's own values, the datasheet of a chip whose `device_kind` is known, then the results of
`jaxobs calibrate`. Values that none of them has are absent, with a reason that says how to supply them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from jaxobs.hardware.calibration import (
    Calibration,
    LeftOut,
    cache_directory,
    fastest,
    load_calibration,
    this_host,
)
from jaxobs.hardware.chips import datasheet_peaks, normalised
from jaxobs.hardware.peaks import Peak, Peaks, peak_key


def known_peaks(
    kind: str, platform: str, jaxlib: str | None, settings: Mapping[str, Any], *,
    elsewhere: bool = False, devices: int = 1,
) -> Peaks:  # fmt: skip
    """The peaks of one device of this host, or, `elsewhere`, of another, for which no calibration counts.

    `devices` is the number of a process's devices that work at once: those of platform `cpu` are emulated
    (`--xla_force_host_platform_device_count`, `jax_num_cpu_devices`) and share one machine, whose peaks were measured.

    `settings` are `Settings` as plain data, of which `peak_flops`, `peak_bytes_per_second`, `tensorfloat32` and
    `cache_directory` are read. Raises ValueError where the peaks among them are no positive, finite numbers.
    """
    chosen = settings.get("cache_directory")
    directory = None if elsewhere else cache_directory(Path(chosen) if chosen else None)
    measured = load_calibration(this_host(kind, jaxlib), directory) if directory else None
    overrides = {f"matrix.{dtype}": rate for dtype, rate in (settings.get("peak_flops") or {}).items()}
    if settings.get("peak_bytes_per_second") is not None:
        overrides["memory"] = settings["peak_bytes_per_second"]
    peaks = peaks_for(
        kind, platform, overrides, measured, tensorfloat32_allowed=settings.get("tensorfloat32")
    )
    return peaks.share(devices) if platform == "cpu" and devices > 1 else peaks


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
        overrides: The user's own values, keyed `matrix.<dtype>` (FLOP/s) and `memory` (bytes/s).
        measured: A calibration of this kind of device; one of another kind is ignored.
        tensorfloat32_allowed: True if all float32 products may run as TensorFloat-32, whose peak is then theirs;
            False if none may; None if the program's precision and the platform decide.

    Raises:
        ValueError: An override is no positive, finite number.
    """
    same = measured is not None and normalised(measured.device_kind) == normalised(device_kind)
    mine = measured if same else None
    found, notes = datasheet_peaks(device_kind)
    own = {key: Peak(rate, "user", "settings") for key, rate in (overrides or {}).items()}
    known = {**found, **own}
    # A datasheet's or a user's `float8` takes precedence over a measured `float8_e4m3fn`.
    measured_values = _measured(mine) if mine else {}
    values = {key: peak for key, peak in measured_values.items() if _shared_key(key) not in known} | known
    for left_out in mine.left_out if mine else ():
        _run_as(left_out, values)
    if tensorfloat32_allowed and "matrix.float32" not in own and "matrix.tensorfloat32" in values:
        values["matrix.float32"] = values["matrix.tensorfloat32"]
    memory, capacity = values.get("memory"), values.get("capacity")
    was_measured = memory is not None and memory.provenance == "measured"
    return Peaks(
        device_kind=device_kind,
        matrix=_unit(values, "matrix"),
        vector=_unit(values, "vector"),
        transcendentals=values.get("transcendentals"),
        memory=memory,
        memory_by_working_set=mine.memory_by_working_set() if mine and was_measured else (),
        link=values.get("link"),
        memory_capacity=capacity.value if capacity else None,
        reason=_reason(device_kind, platform, values, notes),
        float32_products=float32_products(device_kind, platform, values, own, tensorfloat32_allowed),
    )


def _measured(calibration: Calibration) -> dict[str, Peak]:
    source = f"jaxobs calibrate, jaxlib {calibration.jaxlib}, {calibration.cores} cores"
    if calibration.disturbed:
        source += f", while others took {calibration.other_load:.1f} cores"
    found: dict[str, Peak] = {}
    for unit, rates, work in (
        ("matrix", calibration.matrix, "product of {0} × {0}"),
        ("vector", calibration.vector, "multiply-adds on {0} elements"),
    ):
        for dtype, rate in fastest(rates).items():
            about = f"{source}, {work.format(rate.size)}"
            found[f"{unit}.{dtype}"] = Peak(rate.per_second, "measured", about)
    exponential = fastest(calibration.transcendentals).get("float32")
    if exponential:
        found["transcendentals"] = Peak(exponential.per_second, "measured", f"{source}, exp of float32")
    points = calibration.memory_by_working_set()
    if points:
        found["memory"] = Peak(points[-1][1], "measured", f"{source}, passes over {points[-1][0]:.0f} bytes")
    return found


def _shared_key(key: str) -> str:
    unit, _, dtype = key.partition(".")
    return f"{unit}.{peak_key(dtype)}" if dtype else key


def _run_as(left_out: LeftOut, values: dict[str, Peak]) -> None:
    """Give a type without a peak of its own the peak of the type in which the compiler runs its products."""
    keys = f"matrix.{left_out.dtype}", f"matrix.{peak_key(left_out.dtype)}"
    other = values.get(f"matrix.{left_out.runs_as}")
    if other is not None and not any(key in values for key in keys):
        values[keys[0]] = replace(other, source=f"{other.source}; {left_out.dtype} {left_out.reason}")


def _unit(values: Mapping[str, Peak], unit: str) -> dict[str, Peak]:
    return {key.partition(".")[2]: peak for key, peak in values.items() if key.startswith(f"{unit}.")}


def _reason(device_kind: str, platform: str, values: Mapping[str, Peak], note: str | None) -> str | None:
    known = {"compute": bool(_unit(values, "matrix")), "memory": "memory" in values}
    lacking = [word for word, there in known.items() if not there]
    if not lacking:
        return None
    if note is None:
        unmeasured = f"{device_kind!r} is a processor, whose peaks no table has: they have to be measured"
        note = unmeasured if platform == "cpu" else f"no datasheet is known for the device {device_kind!r}"
    return (
        f"no {' and '.join(lacking)} peaks: {note}; run `jaxobs calibrate` on this machine, "
        "or set JAXOBS_PEAK_FLOPS and JAXOBS_PEAK_BYTES_PER_SECOND"
    )


Products = Mapping[str, tuple[str, int]]
"""For each requested precision (`default`, `high`, `highest`), the type of the multiplications and the passes."""

_GPUS: Final = ("gpu", "cuda")
_OTHER_VENDOR: Final = re.compile(r"\b(?:amd|instinct|radeon|intel|gfx\w+)\b")
_OF_TPUS: Final = {"default": ("bfloat16", 1), "high": ("bfloat16", 3), "highest": ("bfloat16", 6)}


def float32_products(
    device_kind: str,
    platform: str,
    known: Collection[str],
    own: Collection[str],
    tensorfloat32_allowed: bool | None,
) -> Products:
    """The types in which a device multiplies float32, by precision; float32 itself for precisions that are absent.

    JAX's default is TensorFloat-32 on NVIDIA's GPUs since Ampere, bfloat16 on TPUs (docs.jax.dev, "Matmul precision").
    XLA takes TensorFloat-32 on NVIDIA's GPUs alone (openxla/xla, xla/service/gpu/matmul_utils.cc). On TPUs `high` is
    three passes of bfloat16 and `highest` six (openxla/xla, ALG_DOT_BF16_BF16_F32_X3
    and X6, which XLA names as theirs).

    Args:
        device_kind: The string that JAX reports.
        platform: JAX's name of the backend.
        known: Keys of the device's peaks.
        own: The keys among them that the user has set. A user's own peak for float32 is that of these products.
        tensorfloat32_allowed: As in `peaks_for`.
    """
    if "matrix.float32" in own and "matrix.tensorfloat32" not in own:
        return {}
    if platform == "tpu":
        return _OF_TPUS if "matrix.bfloat16" in known else {}
    if platform in _GPUS and tensorfloat32_allowed is None and "matrix.tensorfloat32" in known:
        return {} if _OTHER_VENDOR.search(normalised(device_kind)) else {"default": ("tensorfloat32", 1)}
    return {}
