"""A transformer step as people train: what the snapshot, the metrics and a kept trace say of it, against its formula."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.beside import page_at
from benchmarks.gpu_check.checks import traces
from benchmarks.gpu_check.place import Place, told_of
from benchmarks.gpu_check.transformer import LARGE, SMALL, model_flops, rematerialized_flops
from benchmarks.programs.truth import until
from benchmarks.truths import Figure
from jaxobs.cli.demonstration import VOCABULARY, Size, initial_parameters, train_step
from jaxobs.hardware.chips import chips_by_alias, normalised

SECONDS = 40.0
SECONDS_OF_A_CPU = 8.0
READ_EVERY = 10
"""Steps between two looks at the loss: in between the host runs ahead, as most training does."""


def training(place: Place) -> Iterator[Figure]:
    """Train for a while, keep a trace on the way, and hold all that is said against what is known."""
    import jaxobs

    size = LARGE if place.on_gpu else SMALL
    seconds = SECONDS if place.on_gpu else SECONDS_OF_A_CPU
    kept: list[Any] = []
    with jaxobs.instrument() as obs:
        window = threading.Timer(
            seconds / 4, lambda: kept.append(obs.profile(0.5 if place.on_gpu else 0.25, keep=str(place.evidence("kept"))))
        )  # fmt: skip
        steps, wall = trained(obs, size, seconds, window)
        document = obs.snapshot(timeout=10.0).to_dict()
        window.join()
        if obs.address:
            place.evidence("metrics.txt").write_text(page_at(obs.address), encoding="utf-8")
    place.keep_json("snapshot.json", document)
    yield from _time_and_work(place, document, wall, size)
    final = obs.final_snapshot
    loops = final.to_dict()["loops"] if final is not None else {}
    counted = (loops.get("train") or {}).get("steps")
    yield Figure("steps", counted, steps, absolute=0, reason="there is no last snapshot")
    result = kept[0] if kept else None
    if result is None or not result.path:
        reason = (result and result.reason) or "no window was made"
        yield Figure("operations of the trace", reason=reason)
        return
    # One that was cut short, lest it become too large, is read as well.
    yield Figure("kept window is read", result.outcome in ("read", "cut"), truth=True, note=result.outcome)
    if Path(result.path).is_file():
        yield from traces.judge(place, Path(result.path))


def trained(obs: Any, size: Size, seconds: float, window: threading.Timer) -> tuple[int, float]:
    """How many steps there were, and the seconds of one in the later half, by the loop's own clock.

    Raises RuntimeError where there are too few steps to tell.
    """
    import jax

    batch = jax.random.randint(jax.random.key(0), (size.examples, size.length + 1), 0, VOCABULARY)
    step, state = obs.watch(train_step), initial_parameters(np.random.default_rng(0), size)
    state, loss = train_step(state, batch, size)  # compiles
    loss.block_until_ready()
    window.start()
    marks, number = [], 0
    for number, _ in enumerate(obs.steps(until(seconds), tokens=size.tokens), 1):
        state, loss = step(state, batch, size)
        obs.record(loss=loss)
        if number % READ_EVERY == 0:
            loss.block_until_ready()
            marks.append((number, time.perf_counter()))
    if len(marks) < 2:
        raise RuntimeError(f"{number} steps ended: too few to tell a step time from")
    (first, began), (last, ended) = marks[(len(marks) - 1) // 2], marks[-1]
    return number, (ended - began) / (last - first)


def _time_and_work(place: Place, document: dict[str, Any], wall: float, size: Size) -> Iterator[Figure]:
    loop = document["loops"]["train"]
    near = 0.02 if place.on_gpu else 0.25
    yield told_of("step time", loop, "step_seconds", wall, relative=near, unit="s")
    # The device is never idle.
    device_time = "device_seconds_per_step"
    yield told_of("device time of a step", loop, device_time, wall, relative=2.5 * near, unit="s")
    yield from _work(document, size)
    chip = chips_by_alias().get(normalised(place.device_kind))
    peak = chip.values.get("matrix.bfloat16") if chip else None
    model = model_flops(size)
    for name, flops in (("mfu", model), ("hfu", model + rematerialized_flops(size))):
        yield told_of(name.upper(), loop, name, peak and flops / wall / peak, relative=near)
    verdict = loop["bottleneck"]
    shares = sorted(((share, word) for word, share in verdict["shares"].items() if share), reverse=True)
    said = ", ".join(f"{word} {share:.1%}" for share, word in shares)
    yield Figure("bottleneck", verdict["label"], note=said)
    profile, reason = loop["profile"] or {}, loop["profile_reason"]
    yield Figure("profiler windows", profile.get("windows"), between=(1, 1000), reason=reason)
    unmodelled = profile or {"unmodelled_ratio_reason": reason}
    yield told_of("unmodelled share of windows", unmodelled, "unmodelled_ratio", between=(0.0, 0.02))


def _work(document: dict[str, Any], size: Size) -> Iterator[Figure]:
    costs = (made["cost"] for made in document["executables"] if made["function"] == "train_step")
    cost = next(filter(None, costs), None)
    if cost is None:
        yield Figure("matrix FLOPs", reason="the step has no cost")
        return
    again = cost["rematerialized_flops"]
    others = cost["matrix_flops"] - again
    yield Figure("matrix FLOPs, rematerialised ones left out", others, model_flops(size), relative=1e-3)
    yield Figure("rematerialised matrix FLOPs", again, rematerialized_flops(size), relative=1e-3)
    types = ", ".join(sorted(cost["executed_matrix_flops_by_type"] or ()))
    yield Figure("products run in", types or None, reason="not told")
    yield Figure("not modelled", ", ".join(cost["unmodelled"]) or "nothing", "nothing")
