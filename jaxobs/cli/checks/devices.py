"""Checks JAX, its devices and their peaks, and finds hardware that JAX does not use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxobs.config import Settings
from jaxobs.hardware.calibration import NoHomeError, cache_directory, load_calibration, this_host
from jaxobs.hardware.known_peaks import known_peaks
from jaxobs.plugin.base import Collector
from jaxobs.plugin.discovery import Found
from jaxobs.plugin.files import why_not_writable

START_SECONDS = 120.0
"""Seconds after which the start of a backend is taken to hang; on a host with many devices it takes tens of seconds."""

AMD_DRIVER = Path("/dev/kfd")
"""The device file of AMD's compute driver, which exists whatever user-space software is installed."""


def read_devices(timeout: float = START_SECONDS) -> dict[str, Any]:
    """JAX's versions, platform and devices, read in a separate process; or the `error`."""
    nothing: dict[str, Any] = {"jax": None, "jaxlib": None, "platform": None, "devices": []}
    # Without this JAX would take most of a GPU's memory, which a job that runs there now may need.
    environment = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", **os.environ}
    command = [sys.executable, "-m", "jaxobs.measure.device_report"]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=timeout,
            env=environment,
            check=False,
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        return {**nothing, "error": f"JAX found no devices within {timeout:.0f} s"}
    try:
        report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        last = next(iter(done.stderr.strip().splitlines()[-1:]), "no message")
        return {**nothing, "error": f"the process that asked JAX ended with status {done.returncode}: {last}"}
    return report


def check_devices(report: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """The report with `peaks` beside each device, and `problems`."""
    problems = [f"JAX finds no device: {report['error']}"] if report["error"] else []
    directory, not_kept = _where_peaks_are_kept(settings)
    plain = settings.to_dict()
    without = plain | {"peak_flops": {}, "peak_bytes_per_second": None}
    devices = []
    for device in report["devices"]:
        kind, platform = device["kind"], device["platform"]
        try:
            peaks = known_peaks(kind, platform, report["jaxlib"], plain)
        except ValueError as error:
            problems.append(f"the peaks in the settings cannot be used: {error}")
            peaks = known_peaks(kind, platform, report["jaxlib"], without)
        measured = None
        if directory is not None:
            measured, _ = load_calibration(this_host(kind, report["jaxlib"]), directory)
        if measured is not None and measured.disturbed:
            problems.append(
                f"the peaks of {kind} were measured while other processes took {measured.other_load:.1f} cores: "
                "run `jaxobs calibrate` when the machine is quiet"
            )
        if not_kept is not None and (peaks.reason is not None or settings.cache_directory is not None):
            problems.append(not_kept)
        devices.append({**device, "peaks": peaks.to_dict()})
    return {**report, "devices": devices, "problems": list(dict.fromkeys(problems))}


def _where_peaks_are_kept(settings: Settings) -> tuple[Path | None, str | None]:
    """The directory of calibrated peaks, and what to do if none can be stored there."""
    try:
        directory = cache_directory(settings.cache_directory)
    except NoHomeError as error:
        return None, str(error)
    reason = why_not_writable(directory)
    return directory, reason and (
        f"`jaxobs calibrate` could not keep peaks in {directory}: {reason}; "
        "set JAXOBS_CACHE_DIRECTORY to a writable directory"
    )


def hardware_present(plugins: Iterable[Found]) -> dict[str, list[str]]:
    """The accelerators of this host by vendor, from collectors' `devices_present()` and AMD's driver."""
    present: dict[str, list[str]] = {}
    for found in plugins:
        plugin = found.plugin
        if not isinstance(plugin, Collector):
            continue
        try:
            names = [str(name) for name in plugin.devices_present()]
        except Exception:  # noqa: BLE001, S112  # a plugin that fails gives no answer
            continue
        if names:
            present[found.name] = names
    if AMD_DRIVER.exists() and "amd" not in present:
        present["amd"] = [f"an AMD device ({AMD_DRIVER} is there)"]
    return present


def unused_hardware(present: Mapping[str, Sequence[str]], report: Mapping[str, Any]) -> list[str]:
    """A sentence for each vendor whose devices are here while JAX computes on the CPU or not at all."""
    if any(device["platform"] != "cpu" for device in report["devices"]):
        return []
    builds = {"nvidia": "jax[cuda13], or jax[cuda12] for an older driver", "amd": "JAX for ROCm"}
    chosen = os.environ.get("JAX_PLATFORMS")
    cure = f"JAX_PLATFORMS={chosen} keeps JAX to that" if chosen else ""
    return [
        f"{len(names)} × {names[0]} here, and JAX does not use it: "
        f"it runs on {report['platform'] or 'nothing'}; "
        + (cure or f"install {builds.get(vendor, 'the JAX build for it')}")
        for vendor, names in present.items()
    ]


def peak_rows(peaks: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """The rows of one device's peaks (`Peaks.to_dict()`): name, value, unit and source."""
    # Integer work is no FLOP.
    rows = [
        (f"{dtype} matrix", "OP/s" if "int" in dtype else "FLOP/s", peak)
        for dtype, peak in peaks["matrix"].items()
    ]
    rows += [(f"{dtype} vector", "FLOP/s", peak) for dtype, peak in peaks["vector"].items()]
    rows += [("transcendentals", "1/s", peaks["transcendentals"]), ("memory", "B/s", peaks["memory"])]
    rows += [("link", "B/s", peaks["link"])]
    return [
        (what, f"{peak['value']:.3g}", unit, f"{peak['provenance']}: {peak['source']}")
        for what, unit, peak in rows
        if peak is not None
    ]


def peak_notes(peaks: Mapping[str, Any]) -> list[str]:
    """Lines on the types in which float32 products run, and on why peaks are absent."""
    notes = [
        f"  float32 products at `{precision}` precision run in {runs['type']}"
        + (f", {runs['passes']} passes" if runs["passes"] > 1 else "")
        for precision, runs in peaks["float32_products"].items()
    ]
    return [*notes, f"  {peaks['reason']}"] if peaks["reason"] else notes
