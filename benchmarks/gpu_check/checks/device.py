"""Whether the device is known for what it is: its row of the table, its memory, its multiprocessors, its clock."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.gpu_check.findings import Findings, jaxobs
from benchmarks.gpu_check.machine import SMI_FIELDS, amount, nvidia_smi
from jaxobs.hardware.chips import chips_by_alias, normalised

MEBIBYTE = 2**20


def device(told: Findings) -> None:
    """`jaxobs check`, the table of chips, JAX and nvidia-smi side by side."""
    report: dict[str, Any] = json.loads(jaxobs("check", "--json"))
    told.keep_json("check.json", report)
    for problem in report["problems"]:
        told.note(f"`jaxobs check` says: {problem}")
    found = report["devices"][0] if report["devices"] else {}
    told.figure("device kind", found.get("kind"), told.device_kind, reason="no device")
    if not told.on_gpu:
        told.unmeasured("the row of the datasheet", f"{told.device_kind!r} is no GPU, and has no row")
        return
    told.figure("problems that `jaxobs check` sees", len(report["problems"]), 0)
    _row(told, found.get("peaks") or {})


def _row(told: Findings, peaks: dict[str, Any]) -> None:
    import jax

    smi = nvidia_smi(SMI_FIELDS)
    told.keep_json("nvidia_smi.json", smi)
    chip = chips_by_alias().get(normalised(told.device_kind))
    told.figure("device kind is in the table", chip is not None, truth=True)
    if chip is None:
        return
    if smi:
        told.figure("name", told.device_kind, smi.get("name"))
    product = (peaks.get("matrix") or {}).get("bfloat16") or {}
    told.figure("provenance of the bfloat16 peak", product.get("provenance"), "datasheet", reason="no peak")
    told.figure("bfloat16 peak", product.get("value"), unit="FLOP/s", reason="no peak")
    total = amount(smi.get("memory.total"))
    told.figure(
        "memory", peaks.get("memory_capacity"), total and total * MEBIBYTE, relative=0.03, unit="B",
        reason="the table has none",
    )  # fmt: skip
    cores = getattr(jax.local_devices()[0], "core_count", None)
    told.figure("multiprocessors", chip.cores, cores, absolute=0, reason="not in its row")
    clock = amount(smi.get("clocks.max.sm"))
    hertz = clock and clock * 1e6
    told.figure("boost clock", chip.clock, hertz, relative=0.02, unit="Hz", reason="not in its row")
