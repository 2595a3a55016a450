"""NVML's figures as jaxobs serves them and as nvidia-smi prints them, read side by side."""

from __future__ import annotations

import statistics
import threading
import time
from typing import NamedTuple

from benchmarks.gpu_check.figures import Findings
from benchmarks.gpu_check.machine import amount, nvidia_smi
from benchmarks.gpu_check.scrape import Series, page_at, series_of, value_of

MEBIBYTE = 2**20


class Reading(NamedTuple):
    """A metric of jaxobs and the field of nvidia-smi that is the same, in jaxobs's unit after `scale`."""

    metric: str
    labels: dict[str, str]
    field: str
    scale: float
    unit: str
    relative: float = 0.0
    absolute: float = 0.0


READINGS = (
    # nvidia-smi prints what NVML tells it (nvidia-smi manual, "DESCRIPTION"): tolerances are for the moments between the
    # two, and for what it rounds to MiB. Power is a mean over a second since Ampere (NVML, nvmlDeviceGetPowerUsage); the
    # clock is that of a moment, and at the limit of power it moves all the time.
    Reading("jaxobs_nvidia_power_watts", {}, "power.draw", 1.0, "W", relative=0.05),
    Reading("jaxobs_nvidia_power_limit_watts", {}, "enforced.power.limit", 1.0, "W", relative=0.001),
    Reading("jaxobs_nvidia_clock_hertz", {"clock": "sm"}, "clocks.sm", 1e6, "Hz", relative=0.1),
    Reading("jaxobs_nvidia_clock_hertz", {"clock": "memory"}, "clocks.mem", 1e6, "Hz", relative=0.001),
    Reading("jaxobs_nvidia_clock_limit_hertz", {"clock": "sm"}, "clocks.max.sm", 1e6, "Hz", relative=0.001),
    Reading(
        "jaxobs_nvidia_clock_limit_hertz", {"clock": "memory"}, "clocks.max.mem", 1e6, "Hz", relative=0.001
    ),
    Reading("jaxobs_nvidia_utilization_ratio", {}, "utilization.gpu", 0.01, "", absolute=0.05),
    Reading("jaxobs_nvidia_memory_utilization_ratio", {}, "utilization.memory", 0.01, "", absolute=0.1),
    Reading("jaxobs_nvidia_memory_used_bytes", {}, "memory.used", MEBIBYTE, "B", absolute=2.0 * MEBIBYTE),
    Reading(
        "jaxobs_nvidia_memory_reserved_bytes", {}, "memory.reserved", MEBIBYTE, "B", absolute=2.0 * MEBIBYTE
    ),
    Reading("jaxobs_nvidia_memory_total_bytes", {}, "memory.total", MEBIBYTE, "B", absolute=2.0 * MEBIBYTE),
    Reading(
        "jaxobs_nvidia_temperature_celsius", {"sensor": "gpu"}, "temperature.gpu", 1.0, "°C", absolute=3.0
    ),
    Reading(
        "jaxobs_nvidia_temperature_celsius",
        {"sensor": "memory"},
        "temperature.memory",
        1.0,
        "°C",
        absolute=3.0,
    ),
    Reading(
        "jaxobs_nvidia_ecc_errors_total",
        {"kind": "corrected"},
        "ecc.errors.corrected.volatile.total",
        0.0,
        "",
    ),
)
"""Fields by `nvidia-smi --help-query-gpu`. Errors are counted from the run's start here, so that 0 is the truth."""


class Sampler(threading.Thread):
    """nvidia-smi and the page of metrics, about once a second, side by side."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self._address = address
        self._stopped = threading.Event()
        self.smi: list[tuple[float, dict[str, str]]] = []
        self.pages: list[tuple[float, list[Series]]] = []

    def run(self) -> None:
        # Those that this version knows: with one that it does not it refuses them all.
        fields = tuple(nvidia_smi(tuple(reading.field for reading in READINGS)))
        while not self._stopped.is_set():
            self.smi.append((time.monotonic(), nvidia_smi(fields) if fields else {}))
            self.pages.append((time.monotonic(), series_of(page_at(self._address))))
            self._stopped.wait(0.5)

    def stop(self) -> None:
        """End after the sample under way."""
        self._stopped.set()
        self.join(30.0)


def compare(told: Findings, smi: list[dict[str, str]], pages: list[list[Series]]) -> None:
    """Say each reading: medians of what nvidia-smi and the pages of metrics had while the load was steady.

    What nvidia-smi tells and jaxobs does not is wrong: `absent`.
    """
    for reading in READINGS:
        mine = [value_of(page, reading.metric, **reading.labels) for page in pages]
        known = [value for value in mine if value is not None]
        found = statistics.median(known) if known else None
        theirs = [
            number * reading.scale for row in smi if (number := amount(row.get(reading.field))) is not None
        ]
        name = " ".join([reading.metric, *reading.labels.values()])
        if not theirs:
            told.figure(name, found, unit=reading.unit, reason="neither jaxobs nor nvidia-smi tells it")
            continue
        told.figure(
            name, "absent" if found is None else found, statistics.median(theirs),
            relative=reading.relative or None, absolute=None if reading.relative else reading.absolute,
            unit=reading.unit, source=f"nvidia-smi {reading.field}, median of {len(theirs)}",
        )  # fmt: skip
