"""A real RESOURCE_EXHAUSTED: whether the report says what ran out, who asked, and what held the memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.gpu_check.place import Place
from benchmarks.truths import Figure
from jaxobs.report.runs import REPORT

PROGRAM = Path(__file__).parents[1] / "programs" / "exhaust.py"
MAX_SECONDS = 60.0
"""XLA's allocator tries again for ten seconds before it gives up (xla/tsl/framework/allocator_retry.h)."""


def out_of_memory(place: Place) -> Iterator[Figure]:
    """Run it to its error, and read the report."""
    reports = place.evidence("reports")
    reports.mkdir()
    variables = {"JAXOBS_RUN_DIRECTORY": str(reports)}
    done = place.run("exhaust", PROGRAM, timeout=MAX_SECONDS, variables=variables)
    yield Figure("exit status", done.status, 1)
    found = sorted(reports.glob(f"*/{REPORT}*"))
    yield Figure("reports", len(found), 1, note="" if found else done.stderr.strip()[-600:])
    if not found or not done.truth:
        return
    summary = (found[0] / "summary.txt").read_text(encoding="utf-8")
    yield Figure("the summary names the function", "grow" in summary, truth=True)
    if place.on_gpu:  # a CPU's error says INTERNAL up to JAX 0.8
        yield Figure("the summary names RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED" in summary, truth=True)
    yield from _amounts(found[0], done.truth)


def _amounts(folder: Path, truth: dict[str, Any]) -> Iterator[Figure]:
    from jaxobs.jax_compat.memory import requested

    error = (folder / "error.txt").read_text(encoding="utf-8")
    file = folder / "report.json"
    report = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    arrays = report.get("live_arrays") or {}
    devices = report.get("memory_statistics") or [{}]
    in_use = (devices[0].get("statistics") or {}).get("bytes_in_use")
    no_amount = f"the message has no amount that jaxobs can read: {error[:300]}"
    no_arrays = "the report has no live arrays; its summary says why"
    no_statistics = "this backend has no statistics of memory"
    for name, found, key, near, reason in (
        ("bytes asked for, as read from the message", requested(error), "asked", 0.01, no_amount),
        ("bytes of live arrays", arrays.get("bytes"), "held", 0.01, no_arrays),
        ("bytes in use by the allocator", in_use, "held", 0.05, no_statistics),
    ):
        yield Figure(name, found, truth[key], relative=near, unit="B", reason=reason)
