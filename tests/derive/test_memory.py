"""Memory in the document and in the series: exact where told, absent with a reason where not, never 0 for unknown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.derive.fold import Fold
from jaxobs.derive.memory import CENSUS_KEPT_SECONDS, fragmentation
from jaxobs.derive.writer import MAX_BUFFERS, MAX_GROUPS
from jaxobs.model.events import PROCESS_MEMORY, LiveArraysCounted, MemorySampled, memory_need
from jaxobs.model.peak_memory import ARGUMENT, TEMPORARY, Buffer, PeakMemory
from tests.derive.made_up import (
    BEGAN,
    SECOND,
    applied,
    at,
    backend,
    check,
    created,
    families,
    module,
    new_fold,
)

GIB = 2**30


def sampled(device: int = 0, **known: Any) -> MemorySampled:
    empty: dict[str, Any] = {"in_use": None, "peak": None, "limit": None, "pool": None, "largest_free": None}
    return MemorySampled(device, **(empty | {"reason": "", "time": at(1)} | known))


def counted(groups: int = 1, **known: Any) -> LiveArraysCounted:
    made = tuple(
        (f"({number},)", "float32", "one device", 1, 4 * number, "train.py:3 in f")
        for number in range(groups)
    )
    size = sum(group[4] for group in made)
    return LiveArraysCounted(
        groups, size, made, (("train.py:3 in f", groups, size),), 0.001, "", at(2)
    )._replace(**known)


def series(fold: Fold, name: str) -> dict[tuple[str, ...], Any]:
    families = {family.metric.name: dict(family.series) for family in fold.snapshot(at(5)).families}
    return families.get(name, {})


def document(fold: Fold) -> dict[str, Any]:
    snapshot = fold.snapshot(at(5))
    check(snapshot, {})
    return dict(snapshot.document)


def test_a_device_s_memory_is_told_with_its_fragmentation() -> None:
    told = sampled(in_use=6 * GIB, peak=7 * GIB, limit=10 * GIB, pool=10 * GIB, largest_free=3 * GIB)
    fold = applied(new_fold(), [backend(), told])
    memory = document(fold)["devices"][0]["memory"]
    assert {key: value for key, value in memory.items() if not key.endswith("_reason")} == {
        "in_use_bytes": 6 * GIB, "peak_bytes": 7 * GIB, "limit_bytes": 10 * GIB,
        "largest_free_block_bytes": 3 * GIB, "fragmented_bytes": GIB,
        "growth_bytes_per_second": None, "forecast_seconds": None,
    }  # fmt: skip
    for name, value in (
        ("in_use", 6 * GIB), ("peak", 7 * GIB), ("limit", 10 * GIB), ("largest_free", 3 * GIB), ("fragmented", GIB),
    ):  # fmt: skip
        assert series(fold, f"jaxobs_device_memory_{name}_bytes") == {("0",): value}


def test_of_a_device_that_was_not_sampled_nothing_is_said() -> None:
    fold = applied(new_fold(), [backend(), sampled(PROCESS_MEMORY, in_use=GIB)])
    device = document(fold)["devices"][0]
    assert (device["memory"], device["memory_reason"]) == (None, "not sampled yet")


@given(st.tuples(*[st.none() | st.integers(0, 2**40)] * 5))
def test_whatever_is_told_nothing_is_made_up(amounts: tuple[int | None, ...]) -> None:
    names = ("in_use", "peak", "limit", "pool", "largest_free")
    event = sampled(0, **dict(zip(names, amounts, strict=True)))
    largest, fragmented, reason = fragmentation(event)
    assert all(value is None or value >= 0 for value in (largest, fragmented))
    assert (fragmented is None) == bool(reason)
    if fragmented is not None:
        whole = event.limit if event.pool is None else event.pool
        assert whole == event.in_use + largest + fragmented  # type: ignore[operator]  # known where that is
        assert event.largest_free == largest
    fold = applied(new_fold(), [backend(), event])
    document(fold)
    assert fold.observation.refused == 0


def test_no_free_block_beside_free_memory_is_not_believed() -> None:
    assert fragmentation(sampled(in_use=1, limit=10, largest_free=0))[:2] == (None, None)
    assert fragmentation(sampled(in_use=10, limit=10, largest_free=0))[:2] == (0, 0)


def test_series_go_when_the_backend_tells_nothing_any_more() -> None:
    fold = applied(new_fold(), [backend(), sampled(in_use=5, peak=6, limit=7, largest_free=2)])
    applied(fold, [sampled(reason="the backend failed")])
    assert series(fold, "jaxobs_device_memory_in_use_bytes") == {}
    assert series(fold, "jaxobs_device_memory_limit_bytes") == {}
    device = document(fold)["devices"][0]
    assert (device["memory"], device["memory_reason"]) == (None, "the backend failed")


def test_the_forecast_is_shown_for_devices_and_for_the_process() -> None:
    for device in (0, PROCESS_MEMORY):
        leak = [
            sampled(device, in_use=GIB + second * 2**20, limit=2 * GIB, time=BEGAN + second * SECOND)
            for second in range(301)
        ]
        fold = applied(new_fold(), [backend(), *leak])
        told = document(fold)
        memory = told["devices"][0]["memory"] if device == 0 else told["process"]["memory"]
        # The last whole stretch ended at 299 s, with 725 MiB to go at 1 MiB/s.
        assert memory["forecast_seconds"] == pytest.approx(725)
        assert memory["growth_bytes_per_second"] == pytest.approx(2**20)
        name = "jaxobs_device_memory" if device == 0 else "jaxobs_process_memory"
        labels = ("0",) if device == 0 else ()
        assert series(fold, f"{name}_exhaustion_seconds") == {labels: pytest.approx(725)}


def test_a_forecast_ends_with_the_samples_that_it_is_drawn_from() -> None:
    """A job that was stopped in a debugger was full in twelve minutes for as long as it stood."""
    leak = [
        sampled(0, in_use=GIB + second * 2**20, limit=2 * GIB, time=BEGAN + second * SECOND)
        for second in range(301)
    ]
    fold = applied(new_fold(), [backend(), *leak])
    assert [piece["condition"] for piece in fold.snapshot(at(301)).to_dict()["advice"]] == [
        "memory_exhaustion"
    ]
    snapshot = fold.snapshot(at(3900))
    check(snapshot, {})
    told = snapshot.to_dict()
    assert told["advice"] == []
    memory = told["devices"][0]["memory"]
    assert memory["in_use_bytes"] == GIB + 300 * 2**20
    assert (memory["forecast_seconds"], memory["forecast_seconds_reason"]) == (None, "not sampled for 3600 s")
    assert "jaxobs_device_memory_exhaustion_seconds" not in families(snapshot)


def test_files_that_a_process_has_mapped_do_not_fill_its_memory() -> None:
    mapped = [
        sampled(
            PROCESS_MEMORY, in_use=GIB + second * 2**20, files=second * 2**20, limit=2 * GIB,
            time=BEGAN + second * SECOND,
        )
        for second in range(301)
    ]  # fmt: skip
    memory = document(applied(new_fold(), mapped))["process"]["memory"]
    assert memory["in_use_bytes"] == GIB + 300 * 2**20
    assert (memory["forecast_seconds"], memory["growth_bytes_per_second"]) == (None, None)
    assert memory["forecast_seconds_reason"] == "memory in use does not grow steadily"


def test_live_arrays_are_told_and_the_rest_is_one_series() -> None:
    fold = applied(new_fold(), [backend(), counted(MAX_GROUPS + 5, arrays=MAX_GROUPS + 5)])
    arrays = document(fold)["process"]["live_arrays"]
    assert arrays["count"] == MAX_GROUPS + 5
    assert arrays["groups"][1] == {
        "shape": "(1,)", "dtype": "float32", "sharding": "one device", "count": 1, "bytes": 4,
        "line": "train.py:3 in f",
    }  # fmt: skip
    sizes, counts = series(fold, "jaxobs_live_arrays_bytes"), series(fold, "jaxobs_live_arrays")
    assert len(sizes) == len(counts) == MAX_GROUPS + 1
    assert sum(sizes.values()) == arrays["bytes"]
    assert sum(counts.values()) == arrays["count"]
    assert sum(series(fold, "jaxobs_live_arrays_line_bytes").values()) == arrays["bytes"]


def test_a_census_is_kept_with_its_age_where_the_next_could_not_be_made() -> None:
    fold = applied(new_fold(), [backend(), counted(3)])
    then = counted(3).time
    applied(fold, [LiveArraysCounted(None, None, (), (), 0.0, "too many", then + 60 * SECOND)])
    told = fold.snapshot(then + 90 * SECOND).document["process"]["live_arrays"]
    assert (told["count"], told["seconds_ago"]) == (counted(3).arrays, 90.0)


def test_a_census_that_could_not_be_for_long_leaves_no_series() -> None:
    fold = applied(new_fold(), [backend(), counted(3)])
    late = counted(3).time + int(CENSUS_KEPT_SECONDS) * SECOND
    applied(fold, [LiveArraysCounted(None, None, (), (), 0.0, "too many", late)])
    assert series(fold, "jaxobs_live_arrays") == series(fold, "jaxobs_live_arrays_bytes") == {}
    process = document(fold)["process"]
    assert (process["live_arrays"], process["live_arrays_reason"]) == (None, "too many")


@pytest.mark.parametrize(
    "event", [sampled(-2), sampled(in_use=-1), sampled(5_000), counted(arrays=-1), counted(bytes=-1)], ids=str
)
def test_what_cannot_be_is_refused(event: Any) -> None:
    fold = new_fold()
    fold.apply(event)
    assert fold.observation.refused == 1


def test_the_executable_with_the_largest_need_sets_the_peak() -> None:
    small, large = created(1), created(2)
    small = small._replace(
        memory=(("argument", 50), ("output", 50), ("temporary", 0), ("code", 5), ("alias", 50))
    )
    large = large._replace(
        memory=(("argument", 10), ("output", 10), ("temporary", 90), ("code", 1), ("alias", 0))
    )
    fold = applied(new_fold(), [backend(), small, large])
    fold.analysed(1, None, "not read")
    fold.analysed(2, None, "not read")
    assert [memory_need(dict(event.memory)) for event in (small, large)] == [55, 111]
    peak = document(fold)["process"]["peak_executable"]
    assert (peak["executable"], peak["bytes"]) == ("number-2", 111)


def test_the_largest_buffers_of_the_executable_that_needs_the_most_have_series() -> None:
    sums = {"argument": 64, "output": 0, "temporary": 30, "alias": 0}
    small, large = created(1, "small")._replace(memory=(("argument", 8),)), created(2, "large")
    fold = applied(new_fold(), [backend(), small, large._replace(memory=tuple(sums.items()))])
    assert not series(fold, "jaxobs_executable_peak_buffer_bytes")
    layers = [Buffer(10, TEMPORARY, "f32", (5, number % 2), "dot_general") for number in range(4)]
    rare = [Buffer(1, TEMPORARY, "f32", (number,), "add") for number in range(2 * MAX_BUFFERS)]
    buffers = (Buffer(64, ARGUMENT, "bf16", (32,), "x"), *layers, *rare)
    fold.analysed(1, module(fingerprint="a"))
    fold.analysed(2, replace(module(fingerprint="b"), memory=PeakMemory(sums, None, "", buffers)))
    shown = series(fold, "jaxobs_executable_peak_buffer_bytes")
    assert len(shown) == MAX_BUFFERS
    assert shown["large", "argument", "x", "(32,)", "bf16"] == 64
    assert shown["large", "temporary", "dot_general", "(5, 1)", "f32"] == 20
