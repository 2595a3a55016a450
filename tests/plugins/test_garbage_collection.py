"""The probe of Python's garbage collector: every pass counted, and nothing of ours inside one."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from jaxobs.model.events import Measured
from jaxobs_plugins.probes.garbage_collection import COLLECTIONS, GarbageCollectionProbe


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
    assert gc.callbacks == before  # what raises in a callback of the collector is lost
    yield made
    made.stop()
    made.stop()
    gc.enable()


def totals(emitted: list[Measured]) -> Counter[str]:
    sums: Counter[str] = Counter()
    for measured in emitted:
        assert measured.metric == COLLECTIONS.name
        sums[measured.labels[0]] += int(measured.value)
    return sums


def test_series_start_at_zero(probe: GarbageCollectionProbe, emitted: list[Measured]) -> None:
    assert [(value.labels, value.value) for value in emitted] == [
        ((generation,), 0.0) for generation in "012"
    ]


def test_every_pass_is_counted_once_in_its_generation(
    probe: GarbageCollectionProbe, emitted: list[Measured]
) -> None:
    for generation in (0, 0, 1, 2):
        gc.collect(generation)
    probe.sample()
    gc.collect(1)
    probe.sample()
    probe.sample()
    assert totals(emitted) == {"0": 2, "1": 2, "2": 1}


def test_after_stop_nothing_is_told(probe: GarbageCollectionProbe, emitted: list[Measured]) -> None:
    probe.stop()
    gc.collect()
    probe.sample()
    assert len(emitted) == 3
