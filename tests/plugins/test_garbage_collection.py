"""The probe of Python's garbage collector: every pass counted, whole pauses timed, nothing left behind."""

from __future__ import annotations

import gc
import os
import time
import weakref
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from jaxobs.model.events import Measured
from jaxobs.plugin.discovery import PROBES, conformance_problem
from jaxobs_plugins.garbage_collection import COLLECTIONS, SECONDS, GarbageCollectionProbe


@pytest.fixture
def emitted() -> list[Measured]:
    return []


@pytest.fixture
def probe(emitted: list[Measured]) -> Iterator[GarbageCollectionProbe]:
    before = list(gc.callbacks)
    made = GarbageCollectionProbe()
    job: Any = SimpleNamespace(emit=emitted.append)
    gc.disable()  # only the passes a test asks for
    made.start(job)
    yield made
    made.stop()
    made.stop()
    gc.enable()
    assert gc.callbacks == before


def totals(emitted: list[Measured]) -> Counter[tuple[str, str]]:
    sums: Counter[tuple[str, str]] = Counter()
    for measured in emitted:
        sums[measured.metric, measured.labels[0]] += measured.value  # type: ignore[assignment]  # sums of floats
    return sums


def test_it_keeps_the_contract() -> None:
    assert conformance_problem(PROBES, GarbageCollectionProbe()) == ""


def test_series_start_at_zero(probe: GarbageCollectionProbe, emitted: list[Measured]) -> None:
    assert {(value.metric, value.labels): value.value for value in emitted} == {
        (metric.name, (generation,)): 0.0 for metric in (SECONDS, COLLECTIONS) for generation in "012"
    }


def test_every_pass_is_counted_in_its_generation(
    probe: GarbageCollectionProbe, emitted: list[Measured]
) -> None:
    for generation in (0, 0, 1, 2):
        gc.collect(generation)
    probe.sample()
    probe.sample()  # nothing new
    sums = totals(emitted)
    assert [sums[COLLECTIONS.name, generation] for generation in "012"] == [2, 1, 1]
    assert len(emitted) == 6 + 6
    gc.collect(1)
    probe.sample()
    assert totals(emitted)[COLLECTIONS.name, "1"] == 2


def test_the_pause_is_the_whole_pass_with_the_callbacks_of_others(
    probe: GarbageCollectionProbe, emitted: list[Measured]
) -> None:
    def others(phase: str, info: dict[str, Any]) -> None:
        time.sleep(0.02)

    gc.callbacks.insert(1, others)  # between the two of ours, as any that was there before is
    garbage: list[Any] = [[] for _ in range(100_000)]
    began = time.perf_counter()
    gc.collect()
    passed = time.perf_counter() - began
    gc.callbacks.remove(others)
    probe.sample()
    assert 0.04 <= totals(emitted)[SECONDS.name, "2"] <= passed
    assert garbage


def test_its_callbacks_never_raise_and_cost_less_than_a_microsecond(probe: GarbageCollectionProbe) -> None:
    first, last = gc.callbacks[0], gc.callbacks[-1]
    last("stop", {})
    first("unknown", {})
    first("start", {"generation": 7})
    last("stop", {"generation": 7, "collected": 0, "uncollectable": 0})
    info = {"generation": 0, "collected": 0, "uncollectable": 0}
    best = float("inf")
    for _ in range(50):
        began = time.perf_counter_ns()
        for _ in range(100):
            first("start", info)
            last("stop", info)
        best = min(best, (time.perf_counter_ns() - began) / 200)
    assert best < 1000  # nanoseconds a callback, in the least disturbed of 50 rounds


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # JAX warns of any fork; this one is the test
def test_a_forked_child_has_none_of_it(probe: GarbageCollectionProbe) -> None:
    ours = gc.callbacks[0]
    pid = os.fork()
    if pid == 0:
        os._exit(1 if ours in gc.callbacks else 0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert ours in gc.callbacks


def test_a_probe_that_was_stopped_is_let_go(emitted: list[Measured]) -> None:
    job: Any = SimpleNamespace(emit=emitted.append)
    probe = GarbageCollectionProbe()
    probe.start(job)
    probe.stop()
    alive = weakref.ref(probe)
    del probe
    gc.collect()
    assert alive() is None
