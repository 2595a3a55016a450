"""A figure that is in the document and in the series is the same in both: its value, and whether there is one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from jaxobs.model.events import (
    Compilation,
    ExecutableRan,
    FunctionWatched,
    MemorySampled,
    Recorded,
    StepCompleted,
)
from jaxobs.model.snapshot import SnapshotData
from tests.derive.made_up import (
    PEAKS,
    SECOND,
    applied,
    at,
    backend,
    created,
    families,
    module,
    new_fold,
    sound_events,
    step,
)

Shown = tuple[str, tuple[str, ...], float | None]
"""A metric, the labels of one of its series, and what the document says of it."""

LOOPS = {
    "jaxobs_steps_total": "steps",
    "jaxobs_steps_failed_total": "failed_steps",
    "jaxobs_examples_total": "examples",
    "jaxobs_tokens_total": "tokens",
    "jaxobs_mfu_ratio": "mfu",
    "jaxobs_hfu_ratio": "hfu",
}
EXECUTABLES = {
    "jaxobs_executable_achieved_flops_per_second": "achieved_flops_per_second",
    "jaxobs_executable_attainable_flops_per_second": "attainable_flops_per_second",
    "jaxobs_executable_efficiency_ratio": "efficiency",
}
COSTS = {
    "jaxobs_executable_flops": "flops",
    "jaxobs_executable_bytes": "bytes",
    "jaxobs_executable_intensity_flops_per_byte": "intensity",
}
DEVICE_MEMORY = {
    "jaxobs_device_memory_in_use_bytes": "in_use_bytes",
    "jaxobs_device_memory_peak_bytes": "peak_bytes",
    "jaxobs_device_memory_limit_bytes": "limit_bytes",
    "jaxobs_device_memory_largest_free_bytes": "largest_free_block_bytes",
    "jaxobs_device_memory_fragmented_bytes": "fragmented_bytes",
    "jaxobs_device_memory_exhaustion_seconds": "forecast_seconds",
}


def shown_of_loops(document: Mapping[str, Any]) -> Iterator[Shown]:
    for name, loop in document["loops"].items():
        yield from ((metric, (name,), loop[key]) for metric, key in LOOPS.items())
        verdict = loop["bottleneck"]
        yield "jaxobs_bottleneck_confidence_ratio", (name,), verdict["confidence"]
        yield "jaxobs_bottleneck_info", (name, verdict["label"], verdict["runner_up"] or ""), 1.0
        for word, share in verdict["shares"].items():
            yield "jaxobs_bottleneck_ratio", (name, word), share
        for word, seconds in loop["components"].items():
            if seconds:  # before a loop has any wall time it has no such series
                yield "jaxobs_step_component_seconds_total", (name, word), seconds
        for own, value in loop["recorded"].items():
            if not own.endswith("_reason"):
                yield "jaxobs_recorded", (name, own), value


def shown_of_executables(document: Mapping[str, Any]) -> Iterator[Shown]:
    """Executables of the same content have one series together, which is the newest's."""
    rows = [(row, (row["function"], row["executable"])) for row in document["executables"]]
    count = Counter(labels for _, labels in rows)
    for row, labels in rows:
        if row["executable"] is None or count[labels] > 1:
            continue
        yield from ((metric, labels, row[key]) for metric, key in EXECUTABLES.items())
        yield from ((metric, labels, (row["cost"] or {}).get(key)) for metric, key in COSTS.items())
        verdict = row["bottleneck"]
        timed = None if row["seconds_per_run"] is None else 1.0
        limits = (verdict["label"], verdict["runner_up"] or "")
        yield "jaxobs_executable_bottleneck_info", (*labels, *limits), timed
        for kind, amount in row["memory"].items():
            yield "jaxobs_executable_memory_bytes", (*labels, kind), amount
        if row["source"] == "watched":
            yield "jaxobs_executable_runs_total", labels, row["runs"]


def shown_of_the_process(document: Mapping[str, Any]) -> Iterator[Shown]:
    process = document["process"]
    yield "jaxobs_goodput_ratio", (), process["goodput"]
    enabled = process["persistent_cache"]["enabled"]
    yield "jaxobs_persistent_cache_enabled", (), None if enabled is None else float(enabled)
    for category, seconds in process["run_seconds"].items():
        yield "jaxobs_run_seconds_total", (category,), seconds
    for device in document["devices"] or []:
        memory = device["memory"]
        labels = (str(device["device"]),)
        for metric, key in DEVICE_MEMORY.items() if memory else ():
            yield metric, labels, memory[key]
    if process["memory"]:
        yield "jaxobs_process_memory_peak_bytes", (), process["memory"]["peak_bytes"]
        yield "jaxobs_process_memory_limit_bytes", (), process["memory"]["limit_bytes"]


def disagreements(snapshot: SnapshotData) -> dict[tuple[str, tuple[str, ...]], Any]:
    """What the document and the series say, where that is not the same."""
    document, series = snapshot.to_dict(), families(snapshot)
    every = [*shown_of_loops(document), *shown_of_executables(document), *shown_of_the_process(document)]
    found = {}
    for metric, labels, told in every:
        value = series.get(metric, {}).get(labels)
        if (told is None) != (value is None) or not math.isclose(told or 0.0, value or 0.0, rel_tol=1e-9):
            found[metric, labels] = told, value
    return found


@settings(max_examples=100, deadline=None)
@given(st.lists(sound_events | st.tuples(st.integers(1, 4)), max_size=40))
def test_whatever_the_events_were(stream: list[Any]) -> None:
    fold = new_fold()
    fold.bind_peaks("example", PEAKS)
    for item in stream:
        match item:
            case (int(number),):
                fold.analysed(number, module(fingerprint=f"h{number}"))
            case event:
                fold.apply(event)
    assert disagreements(fold.snapshot(at(200))) == {}
    assert disagreements(fold.snapshot(at(300))) == {}


def a_job(seconds_per_run: float) -> SnapshotData:
    """A watched function in a hundred steps of a tenth of a second, and a bit of everything besides."""
    fold = applied(new_fold(), [backend(), created(1), FunctionWatched(-1, "f", "", at(0.5))])
    fold.bind_peaks("example", PEAKS)
    fold.analysed(1, module(matrix=3e9))
    fold.apply(MemorySampled(0, 10**9, 2 * 10**9, 10**10, 5 * 10**9, 10**9, "", at(1), None))
    fold.apply(Compilation("f", 1, 1, at(1), (("backend", at(0.6), at(0.9)),), "hit", None, (), None))
    fold.apply(Recorded("train", "loss", 0.5, at(2)))
    for number in range(100):
        end = 1 + (number + 1) / 10
        fold.apply(step(number, end - 0.1, end, runs=(1,), examples=8.0, tokens=64.0))
        fold.apply(StepCompleted("train", number, at(end), SECOND // 1000))
        fold.apply(ExecutableRan(1, seconds_per_run, seconds_per_run / 100, at(end)))
    return fold.snapshot(at(11))


def test_a_job_of_which_all_is_known() -> None:
    snapshot = a_job(0.05)
    document = snapshot.to_dict()
    assert document["loops"]["train"]["mfu"] is not None
    assert document["executables"][0]["efficiency"] is not None
    assert document["devices"][0]["memory"]["fragmented_bytes"] is not None
    assert disagreements(snapshot) == {}


def test_what_is_withheld_is_in_neither() -> None:
    snapshot = a_job(1e-9)
    executable = snapshot.to_dict()["executables"][0]
    assert executable["efficiency"] is None
    assert "contradict" in executable["efficiency_reason"]
    assert disagreements(snapshot) == {}
