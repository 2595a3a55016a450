"""What profiler windows cost: how much later steps ended around each, against what was charged to the budget for it."""

from __future__ import annotations

from typing import Any

from benchmarks.gpu_check.findings import Findings
from benchmarks.profiler_windows.__main__ import measured
from benchmarks.profiler_windows.excess import difference, studied

SECONDS = 52.0
SECONDS_OF_A_CPU = 30.0
EVERY = 9.0
"""Seconds between windows, so that between two of them a stretch as long as one, with two seconds on either side, is
without any: what a window is compared with."""

LOOP = "operations"
"""Thirty small operations a step: many kernels a second, which is what a profiler has to record."""


def windows(told: Findings) -> None:
    """`python -m benchmarks.profiler_windows` for a short while, in a process of its own."""
    seconds = SECONDS if told.on_gpu else SECONDS_OF_A_CPU
    found = measured(LOOP, seconds, EVERY)
    told.keep_json("steps_and_windows.json", found)
    if len(found["spans"]) < 2:
        told.unmeasured("windows", f"{len(found['spans'])} were made")
        return
    told.figure("windows that were read", found["read"], len(found["spans"]), absolute=0)
    _study(told, found)


def _study(told: Findings, found: dict[str, Any]) -> None:
    lost, without, spans = studied(found)
    if not lost or not without:
        told.unmeasured(
            "excess of a window", f"{len(lost)} windows and {len(without)} stretches without any: too few"
        )
        return
    excess = difference(lost, without)
    charged = sum(span[2] for span in spans) / len(spans)
    told.figure("length of a window", sum(span[3] for span in spans) / len(spans), unit="s")
    told.figure("charged for a window", charged, unit="s")
    told.figure(
        "excess of a window", excess.middle, unit="s",
        source=f"95 % interval {excess.low:.4f} to {excess.high:.4f} s",
    )  # fmt: skip
    # Windows come no more often than they are paid for, so that more charged than lost keeps the promise.
    told.figure("excess is no more than was charged", excess.low <= charged, truth=True)
    told.figure("dearest window", max(lost), unit="s")
    rate = found["steps"][-1] / (found["times"][-1] - found["times"][0])
    told.figure("steps a second", rate, unit="1/s")
