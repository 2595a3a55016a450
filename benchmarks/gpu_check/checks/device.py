"""Whether the device is known for what it is: its row of the table, its memory, its multiprocessors, its clock."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from benchmarks.gpu_check.machine import SMI_FIELDS, amount, nvidia_smi
from benchmarks.gpu_check.place import Place, jaxobs
from benchmarks.truths import Figure
from jaxobs.hardware.chips import chips_by_alias, normalised

MEBIBYTE = 2**20


def device(place: Place) -> Iterator[Figure]:
    """`jaxobs check`, the table of chips, JAX and nvidia-smi side by side."""
    report: dict[str, Any] = json.loads(jaxobs("check", "--json"))
    place.keep_json("check.json", report)
    found = report["devices"][0] if report["devices"] else {}
    yield Figure("device kind", found.get("kind"), place.device_kind, reason="no device")
    problems = report["problems"]
    expected = 0 if place.on_gpu else None
    yield Figure("problems that `jaxobs check` sees", len(problems), expected, note="; ".join(problems))
    if place.on_gpu:
        yield from _row(place, found.get("peaks") or {})
    else:
        yield Figure("the row of the datasheet", reason=f"{place.device_kind!r} is no GPU, and has no row")


def _row(place: Place, peaks: dict[str, Any]) -> Iterator[Figure]:
    import jax

    smi = nvidia_smi(SMI_FIELDS)
    place.keep_json("nvidia_smi.json", smi)
    chip = chips_by_alias().get(normalised(place.device_kind))
    yield Figure("device kind is in the table", chip is not None, truth=True)
    if chip is None:
        return
    if smi:
        yield Figure("name", place.device_kind, smi.get("name"))
    product = (peaks.get("matrix") or {}).get("bfloat16") or {}
    yield Figure("provenance of the bfloat16 peak", product.get("provenance"), "datasheet", reason="no peak")
    yield Figure("bfloat16 peak", product.get("value"), unit="FLOP/s", reason="no peak")
    total = amount(smi.get("memory.total"))
    capacity, given = peaks.get("memory_capacity"), total and total * MEBIBYTE
    yield Figure("memory", capacity, given, relative=0.03, unit="B", reason="the table has none")
    cores = getattr(jax.local_devices()[0], "core_count", None)
    yield Figure("multiprocessors", chip.cores, cores, absolute=0, reason="not in its row")
    clock = amount(smi.get("clocks.max.sm"))
    hertz = clock and clock * 1e6
    yield Figure("boost clock", chip.clock, hertz, relative=0.02, unit="Hz", reason="not in its row")
