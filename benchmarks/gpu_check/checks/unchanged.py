"""`jaxobs run` on a training script as it is: the script does the same, its loop is found, and it ends as fast."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from benchmarks.gpu_check.findings import Findings
from benchmarks.observed import How, Run

SCRIPT = Path(__file__).parents[1] / "programs" / "plain_training.py"
SECONDS = 15.0
SECONDS_OF_A_CPU = 8.0
EXIT_SECONDS = 1.0
"""What jaxobs may add to a job's exit, by its first promise; more on a processor that others share."""


def unchanged(told: Findings) -> None:
    """Run the script with and without, and compare what it said of itself with what jaxobs said of it."""
    plain, plain_exit = _run(told, "plain")
    observed, observed_exit = _run(told, "observed")
    if observed.last is not None:
        told.keep_json("snapshot.json", observed.last)
    told.figure("exit status without jaxobs", plain.status, 0)
    told.figure("exit status", observed.status, 0)
    told.figure("exit without jaxobs", plain_exit, unit="s", reason="the script did not come to its end")
    if plain_exit is not None:
        allowed = EXIT_SECONDS if told.on_gpu else 3 * EXIT_SECONDS
        told.figure(
            "exit", observed_exit, between=(0.0, plain_exit + allowed), unit="s",
            reason="it did not end by itself",
        )  # fmt: skip
    mine, own = observed.truth, plain.truth
    if not mine or not own:
        told.note(f"It said: {(observed.stderr or plain.stderr).strip()[-600:]}")
        return
    ratio = mine["step_seconds"] / own["step_seconds"]
    # Two processes: XLA may choose other algorithms for the products in each.
    told.figure("step time over that without jaxobs", ratio, 1.0, relative=0.05 if told.on_gpu else 0.5)
    _loop(told, observed, mine)


def _loop(told: Findings, observed: Run, truth: dict[str, Any]) -> None:
    near = 0.03 if told.on_gpu else 0.3
    loop = observed.loop
    if not loop:
        told.unmeasured("the loop", "jaxobs found no loop")
        return
    told.of("step time", loop, "step_seconds", truth["step_seconds"], relative=near, unit="s")
    document = observed.last or {}
    peaks = document["devices"][0]["peaks"] or {}
    peak = ((peaks.get("matrix") or {}).get("bfloat16") or {}).get("value") if told.on_gpu else None
    told.of("MFU", loop, "mfu", peak and truth["model_flops"] / truth["step_seconds"] / peak, relative=near)
    told.figure("bottleneck", loop["bottleneck"]["label"])
    functions = document.get("functions") or {}
    told.figure("the step is known by its name", "train_step" in functions, truth=True)


def _run(told: Findings, how: How) -> tuple[Run, float | None]:
    """What became of it, and the seconds from its last word to its end."""
    size, seconds = ("large", SECONDS) if told.on_gpu else ("small", SECONDS_OF_A_CPU)
    began = time.time()
    done = told.run(how, SCRIPT, size, str(seconds), how=how, timeout=100.0)
    return done, max(0.0, began + done.seconds - done.truth["ended"]) if done.truth else None
