"""NVML's figures against nvidia-smi under a steady load and at rest, and device memory against JAX's allocator."""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Callable
from typing import Any

from benchmarks.gpu_check.figures import Findings
from benchmarks.gpu_check.machine import amount
from benchmarks.gpu_check.nvidia_readings import Sampler, compare
from benchmarks.gpu_check.scrape import page_at, series_of, value_of

SECONDS = 23.0
"""Of load. The collector reads every five seconds, so that the seventeen that count have three readings of it at least;
the first, while power and clocks settle, do not count."""

SETTLING = 6.0
HELD = 8 * 2**30
"""Bytes of the array that is held on a GPU."""


ENERGY = "jaxobs_nvidia_energy_joules_total"


def check(told: Findings) -> None:
    """A product over and over, then rest; both read from both sides."""
    import jax
    import jax.numpy as jnp

    import jaxobs

    side = 8192 if told.on_gpu else 256
    values = jax.random.normal(jax.random.key(0), (side, side), "float32").astype("bfloat16")
    product = jax.jit(lambda x: x @ x)
    product(values).block_until_ready()
    with jaxobs.instrument() as obs:
        if not obs.address:
            raise RuntimeError("the metrics server of jaxobs has no address")
        if told.on_gpu:
            _under_load(told, obs, lambda: product(values).block_until_ready())
        else:
            told.unmeasured("NVML beside nvidia-smi", "there is no NVIDIA device")
        held = jnp.ones(HELD // 4 if told.on_gpu else 2**20, jnp.float32)
        held.block_until_ready()
        time.sleep(3.0)  # two samples of the allocator's figures
        _allocator(told, obs, held)
        document = obs.snapshot(timeout=10.0).to_dict()
        told.keep_json("snapshot.json", document)
        reason = document["sources"]["nvidia"]["reason"]
        if reason:
            told.note(f"The collector `nvidia` says: {reason}.")


def _under_load(told: Findings, obs: Any, work: Callable[[], Any]) -> None:
    sampler = Sampler(obs.address)
    sampler.start()
    began = time.monotonic()
    while time.monotonic() - began < SECONDS:
        for _ in range(20):
            work()
    sampler.stop()
    told.keep_json("nvidia_smi.json", sampler.smi)
    told.keep_json("pages.json", sampler.pages)
    if not any(row for _, row in sampler.smi):
        told.unmeasured("NVML beside nvidia-smi", "nvidia-smi is not here, or answers nothing")
        return
    smi = [row for at, row in sampler.smi if at - began > SETTLING]
    pages = [page for at, page in sampler.pages if at - began > SETTLING + 5.0]
    compare(told, smi, pages)
    _energy(told, sampler, began)


def _energy(told: Findings, sampler: Sampler, began: float) -> None:
    """Joules between two changes of the counter, against the mean of nvidia-smi's power over the same time."""
    read = [(at, value_of(page, ENERGY)) for at, page in sampler.pages if at - began > SETTLING]
    changes = [
        (at, joules)
        for (at, joules), (_, before) in zip(read[1:], read, strict=False)
        if joules is not None and before is not None and joules != before
    ]
    if len(changes) < 2:
        told.unmeasured("energy", "the counter was read fewer than twice under load")
        return
    (first, low), (last, high) = changes[0], changes[-1]
    watts = [amount(row.get("power.draw")) for at, row in sampler.smi if first <= at <= last]
    known = [watt for watt in watts if watt is not None]
    if not known:
        told.unmeasured("energy", "nvidia-smi tells no power")
        return
    # A change is seen up to a second after it came to the page: a tenth of the ten seconds between three changes.
    told.figure("energy over time", (high - low) / (last - first), statistics.mean(known), relative=0.1, unit="W",
                source="nvidia-smi power.draw, mean")  # fmt: skip


def _allocator(told: Findings, obs: Any, held: Any) -> None:
    import jax

    truth = jax.local_devices()[0].memory_stats()
    device = obs.snapshot(timeout=10.0).to_dict()["devices"][0]
    said = device["memory"]
    if not truth or not said:
        told.unmeasured("device memory", device["memory_reason"] or "memory_stats() tells nothing")
        return
    told.figure("bytes in use, at rest", said["in_use_bytes"], truth["bytes_in_use"], relative=0.001, unit="B",
                source="memory_stats()", reason=said.get("in_use_bytes_reason"))  # fmt: skip
    told.figure("bytes in use, at least the array held", said["in_use_bytes"] - held.nbytes,
                between=(0.0, 2.0 * 2**30), unit="B")  # fmt: skip
    told.figure("limit", said["limit_bytes"], truth.get("bytes_limit"), absolute=0, unit="B", source="memory_stats()",
                reason=said.get("limit_bytes_reason"))  # fmt: skip
    told.figure("peak", said["peak_bytes"], truth.get("peak_bytes_in_use"), relative=0.001, unit="B",
                source="memory_stats()", reason=said.get("peak_bytes_reason"))  # fmt: skip
    _process_memory(told, obs, truth)


def _process_memory(told: Findings, obs: Any, truth: dict[str, int]) -> None:
    """What the driver counts for this process: JAX's pool, and a context of some hundred MiB."""
    page = series_of(page_at(obs.address))
    pool = truth.get("pool_bytes") or truth.get("bytes_limit")
    found = value_of(page, "jaxobs_nvidia_process_memory_bytes")
    reason = "NVML does not show the process's number here, as in many containers"
    if found is None or pool is None:
        told.unmeasured("memory of the process, by NVML", reason)
        return
    told.figure("memory of the process, by NVML", found, between=(float(pool), pool + 3.0 * 2**30), unit="B",
                source="JAX's pool and a context")  # fmt: skip
    done = subprocess.run(
        ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"],
        capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip
    told.evidence("compute_apps.csv").write_text(done.stdout, encoding="utf-8")
