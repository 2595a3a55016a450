"""A transformer step as people train: what the snapshot, the metrics and a kept trace say of it, against its formula."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.beside import page_at
from benchmarks.gpu_check.checks import traces
from benchmarks.gpu_check.findings import Findings
from benchmarks.gpu_check.transformer import (
    LARGE,
    SMALL,
    batch_of,
    model_flops,
    rematerialized_flops,
    started,
    train,
)
from benchmarks.programs.truth import until
from jaxobs.cli.demonstration import Size, train_step
from jaxobs.hardware.chips import chips_by_alias, normalised

SECONDS = 40.0
SECONDS_OF_A_CPU = 8.0


def training(told: Findings) -> None:
    """Train for a while, keep a trace on the way, and hold all that is said against what is known."""
    import jax

    import jaxobs

    size = LARGE if told.on_gpu else SMALL
    seconds = SECONDS if told.on_gpu else SECONDS_OF_A_CPU
    batch = batch_of(size)
    kept: list[Any] = []
    with jaxobs.instrument() as obs:
        began = time.perf_counter()
        state = started(size, batch)
        told.figure("trace, compile and first run", time.perf_counter() - began, unit="s")
        window = threading.Timer(
            seconds / 4, lambda: kept.append(obs.profile(0.5 if told.on_gpu else 0.25, keep=str(told.evidence("kept"))))
        )  # fmt: skip
        window.start()
        turns = obs.steps(until(seconds), tokens=size.tokens)
        steps, wall = train(obs.watch(train_step), state, batch, size, turns, obs.record)
        document = obs.snapshot(timeout=10.0).to_dict()
        statistics = jax.local_devices()[0].memory_stats()
        window.join()
        if obs.address:
            told.evidence("metrics.txt").write_text(page_at(obs.address), encoding="utf-8")
    told.keep_json("snapshot.json", document)
    told.keep_json("memory_statistics.json", statistics)
    _time_and_work(told, document, wall, size)
    final = obs.final_snapshot
    loops = final.to_dict()["loops"] if final is not None else {}
    told.figure(
        "steps", (loops.get("train") or {}).get("steps"), steps, absolute=0,
        reason="there is no last snapshot",
    )  # fmt: skip
    _memory(told, document, statistics)
    _trace(told, kept)


def _time_and_work(told: Findings, document: dict[str, Any], wall: float, size: Size) -> None:
    loop = document["loops"]["train"]
    near = 0.02 if told.on_gpu else 0.25
    told.of("step time", loop, "step_seconds", wall, relative=near, unit="s")
    # The device is never idle.
    told.of("device time of a step", loop, "device_seconds_per_step", wall, relative=2.5 * near, unit="s")
    _work(told, document, size)
    chip = chips_by_alias().get(normalised(told.device_kind))
    peak = chip.values.get("matrix.bfloat16") if chip else None
    model = model_flops(size)
    for name, flops in (("mfu", model), ("hfu", model + rematerialized_flops(size))):
        told.of(name.upper(), loop, name, peak and flops / wall / peak, relative=near)
    told.figure(
        "components together", sum(loop["components"].values()), loop["wall_seconds"], relative=0.01,
        unit="s",
    )  # fmt: skip
    verdict = loop["bottleneck"]
    told.figure("bottleneck", verdict["label"])
    shares = sorted(((share, word) for word, share in verdict["shares"].items() if share), reverse=True)
    told.note("Shares: " + ", ".join(f"{word} {share:.1%}" for share, word in shares) + ".")
    profile = loop["profile"] or {}
    told.figure("profiler windows", profile.get("windows"), between=(1, 1000), reason=loop["profile_reason"])
    told.figure(
        "unmodelled share of windows", profile.get("unmodelled_ratio"), between=(0.0, 0.02),
        reason=profile.get("unmodelled_ratio_reason") or loop["profile_reason"],
    )  # fmt: skip


def _work(told: Findings, document: dict[str, Any], size: Size) -> None:
    steps = [made for made in document["executables"] if made["function"] == "train_step" and made["cost"]]
    cost = steps[0]["cost"] if steps else {}
    reason = "the step has no cost" if not steps else ""
    again = cost.get("rematerialized_flops")
    told.figure(
        "matrix FLOPs, rematerialised ones left out", cost["matrix_flops"] - again if cost else None,
        model_flops(size), relative=1e-3, reason=reason,
    )  # fmt: skip
    told.figure(
        "rematerialised matrix FLOPs", again, rematerialized_flops(size), relative=1e-3,
        reason=reason,
    )  # fmt: skip
    types = cost.get("executed_matrix_flops_by_type") or {}
    told.figure("products run in", ", ".join(sorted(types)) or None, reason=reason)
    told.figure("cost is exact", cost.get("exact"), reason=reason)
    told.figure("not modelled", ", ".join(cost.get("unmodelled", ())) or "nothing", "nothing")


def _memory(told: Findings, document: dict[str, Any], statistics: dict[str, int] | None) -> None:
    device = document["devices"][0]
    said, truth = device["memory"] or {}, statistics or {}
    # Not what is in use: that differs between the middle of a step and its end. `readings` compares it at rest.
    for key, name in (("peak_bytes", "peak_bytes_in_use"), ("limit_bytes", "bytes_limit")):
        reason = said.get(f"{key}_reason") or device["memory_reason"]
        told.figure(
            f"device memory: {name}", said.get(key), truth.get(name), relative=0.05, unit="B", reason=reason
        )


def _trace(told: Findings, kept: list[Any]) -> None:
    result = kept[0] if kept else None
    if result is None or not result.path:
        told.unmeasured("operations of the trace", (result and result.reason) or "no window was made")
        return
    # One that was cut short, lest it become too large, is read as well.
    told.figure("kept window is read", result.outcome in ("read", "cut"), truth=True, source=result.outcome)
    if Path(result.path).is_file():
        traces.judge(told, Path(result.path))
