"""NVML's figures as jaxobs serves them against nvidia-smi's, and device memory against JAX's allocator.

nvidia-smi and the page of metrics are read side by side, under a steady load and at rest.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.beside import page_at, series_of
from benchmarks.gpu_check.machine import amount, nvidia_smi
from benchmarks.gpu_check.place import Place, told_of
from benchmarks.programs.truth import until
from benchmarks.truths import Figure

if TYPE_CHECKING:
    from prometheus_client.samples import Sample

SETTLING, SECONDS = 11.0, 16.0
"""Of load: while power and clocks settle, and then so long that there are three readings of the collector at least, which
reads every five seconds."""

HELD = 8 * 2**30
"""Bytes of the array that is held on a GPU."""


MEBIBYTE = 2**20


class Reading(NamedTuple):
    """A metric of jaxobs and the field of nvidia-smi that is the same, in jaxobs's unit after `scale`.

    `name` is that behind `jaxobs_nvidia_`.
    """

    name: str
    labels: dict[str, str]
    field: str
    scale: float
    unit: str
    relative: float | None = None
    absolute: float | None = None

    @property
    def metric(self) -> str:
        """Its whole name."""
        return f"jaxobs_nvidia_{self.name}"


READINGS = (
    # nvidia-smi prints what NVML tells it (nvidia-smi manual, "DESCRIPTION"): tolerances are for the moments between the
    # two, and for what it rounds to MiB. Power is a mean over a second since Ampere (NVML, nvmlDeviceGetPowerUsage); the
    # clock is that of a moment, and at the limit of power it moves all the time.
    Reading("power_watts", {}, "power.draw", 1.0, "W", relative=0.05),
    Reading("power_limit_watts", {}, "enforced.power.limit", 1.0, "W", relative=0.001),
    Reading("clock_hertz", {"clock": "sm"}, "clocks.sm", 1e6, "Hz", relative=0.1),
    Reading("clock_hertz", {"clock": "memory"}, "clocks.mem", 1e6, "Hz", relative=0.001),
    Reading("clock_limit_hertz", {"clock": "sm"}, "clocks.max.sm", 1e6, "Hz", relative=0.001),
    Reading("clock_limit_hertz", {"clock": "memory"}, "clocks.max.mem", 1e6, "Hz", relative=0.001),
    Reading("utilization_ratio", {}, "utilization.gpu", 0.01, "", absolute=0.05),
    Reading("memory_utilization_ratio", {}, "utilization.memory", 0.01, "", absolute=0.1),
    Reading("memory_used_bytes", {}, "memory.used", MEBIBYTE, "B", absolute=2.0 * MEBIBYTE),
    Reading("memory_reserved_bytes", {}, "memory.reserved", MEBIBYTE, "B", absolute=2.0 * MEBIBYTE),
    Reading("memory_total_bytes", {}, "memory.total", MEBIBYTE, "B", absolute=2.0 * MEBIBYTE),
    Reading("temperature_celsius", {"sensor": "gpu"}, "temperature.gpu", 1.0, "°C", absolute=3.0),
    Reading("temperature_celsius", {"sensor": "memory"}, "temperature.memory", 1.0, "°C", absolute=3.0),
    Reading("ecc_errors_total", {"kind": "corrected"}, "ecc.errors.corrected.volatile.total", 0.0, ""),
)
"""Fields by `nvidia-smi --help-query-gpu`. Errors are counted from the run's start here, so that 0 is the truth."""


def value_of(page: list[Sample], name: str, **labels: str) -> float | None:
    """The value of the first series with that name and those labels; None where there is none."""
    found = (one.value for one in page if one.name == name and labels.items() <= one.labels.items())
    return next(found, None)


def compare(smi: list[dict[str, str]], pages: list[list[Sample]]) -> Iterator[Figure]:
    """Each reading: medians of what nvidia-smi and the pages of metrics had while the load was steady.

    What nvidia-smi tells and jaxobs does not is wrong: `absent`.
    """
    for reading in READINGS:
        mine = [value_of(page, reading.metric, **reading.labels) for page in pages]
        known = [value for value in mine if value is not None]
        found = statistics.median(known) if known else None
        numbers = (amount(row.get(reading.field)) for row in smi)
        theirs = [number * reading.scale for number in numbers if number is not None]
        name = " ".join([reading.metric, *reading.labels.values()])
        if not theirs:
            yield Figure(name, found, unit=reading.unit, reason="neither jaxobs nor nvidia-smi tells it")
            continue
        yield Figure(
            name, "absent" if found is None else found, statistics.median(theirs),
            relative=reading.relative, absolute=reading.absolute,
            unit=reading.unit, note=f"nvidia-smi {reading.field}, median of {len(theirs)}",
        )  # fmt: skip


def readings(place: Place) -> Iterator[Figure]:
    """A product over and over, then rest; both read from both sides."""
    import jax
    import jax.numpy as jnp

    import jaxobs

    side = 8192 if place.on_gpu else 256
    values = jax.random.normal(jax.random.key(0), (side, side), "float32").astype("bfloat16")
    product = jax.jit(lambda x: x @ x)
    product(values).block_until_ready()
    with jaxobs.instrument() as obs:
        if not obs.address:
            raise RuntimeError("the metrics server of jaxobs has no address")
        if place.on_gpu:
            yield from _under_load(place, obs, lambda: product(values).block_until_ready())
        else:
            yield Figure("NVML beside nvidia-smi", reason="there is no NVIDIA device")
        # In eight rows: each dimension fits 32 bits.
        held = jnp.ones((8, HELD // 32 if place.on_gpu else 2**17), jnp.float32)
        held.block_until_ready()
        time.sleep(3.0)  # two samples of the allocator's figures
        statistics_of_jax = jax.local_devices()[0].memory_stats()
        document = obs.snapshot(timeout=10.0).to_dict()
        yield from _allocator(document["devices"][0], statistics_of_jax, held.nbytes)
        place.keep_json("snapshot.json", document)
        yield Figure("the collector `nvidia`", document["sources"]["nvidia"]["reason"] or "no reason")


def _under_load(place: Place, obs: Any, work: Callable[[], Any]) -> Iterator[Figure]:
    """nvidia-smi and the page of metrics, about once a second, side by side, while a thread keeps the device busy."""
    stopped = threading.Event()

    def load() -> None:
        while not stopped.is_set():
            work()

    thread = threading.Thread(target=load, daemon=True)
    thread.start()
    # Those that this version knows: with one that it does not it refuses them all.
    fields = tuple(nvidia_smi(tuple(reading.field for reading in READINGS)))
    time.sleep(SETTLING)
    smi, pages = [], []
    for _ in until(SECONDS):
        smi.append(nvidia_smi(fields) if fields else {})
        pages.append(series_of(page_at(obs.address)))
        time.sleep(0.5)
    stopped.set()
    thread.join()
    place.keep_json("nvidia_smi.json", smi)
    place.keep_json("pages.json", pages)
    if any(smi):
        yield from compare(smi, pages)
    else:
        yield Figure("NVML beside nvidia-smi", reason="nvidia-smi is not here, or answers nothing")


def _allocator(device: dict[str, Any], truth: dict[str, int] | None, held: int) -> Iterator[Figure]:
    """Device memory by jaxobs and by JAX, at rest, while so many bytes are held."""
    said = device["memory"]
    if not truth or not said:
        reason = device["memory_reason"] or "memory_stats() tells nothing"
        yield Figure("device memory", reason=reason)
        return
    in_use = said["in_use_bytes"]
    yield told_of("bytes in use", said, "in_use_bytes", truth["bytes_in_use"], relative=0.001, unit="B")
    yield Figure(
        "bytes in use, at least the array held", in_use, between=(held, held + 2.0 * 2**30), unit="B"
    )
    yield told_of("limit", said, "limit_bytes", truth.get("bytes_limit"), absolute=0, unit="B")
    yield told_of("peak", said, "peak_bytes", truth.get("peak_bytes_in_use"), relative=0.001, unit="B")
