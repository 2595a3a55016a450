"""The soak's verdict: what counts as growth, and that a difference of one event is seen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.soak.verdict import count_growth, figures_of_counts, memory_growth

MEBIBYTE = 2**20


def test_caches_that_fill_in_the_first_quarter_are_no_growth_and_a_leak_after_it_is() -> None:
    filling = [min(number, 100) * MEBIBYTE for number in range(400)]
    assert memory_growth(filling) == 0.0
    leaking = [own + number * MEBIBYTE // 100 for number, own in enumerate(filling)]
    assert memory_growth(leaking) == pytest.approx(2.0, abs=0.1)


def test_what_is_held_for_a_while_is_no_growth_and_one_that_is_never_let_go_is() -> None:
    passing = [10 + (number % 7 == 0) * 5 for number in range(400)]
    assert count_growth(passing) == 0
    assert count_growth([count + (number > 290) for number, count in enumerate(passing)]) == 1


def test_an_event_in_no_count_and_a_span_in_two_are_seen(tmp_path: Path) -> None:
    sources = {
        "soak_failing": {"dropped": 2}, "soak_witness": {"dropped": 0}, "otel": {"dropped": 1},
    }  # fmt: skip
    agent = {"events_emitted": 11, "events_accepted": 6, "events_dropped": 3, "events_refused": 1}
    (tmp_path / "snapshot.json").write_text(json.dumps({"agent": agent, "sources": sources}))
    (tmp_path / "witness.json").write_text(
        json.dumps({"events": 5, "spans": 4, "dropped": 0, "metrics": {"refused": 3.0}})
    )
    (tmp_path / "failing.json").write_text(json.dumps({"events": 4, "spans": 3, "dropped": 2}))
    differences = {figure.name: figure.found for figure in figures_of_counts(tmp_path, delivered=4)}
    assert differences["events"] == 1
    assert differences["the failing exporter's events and spans"] == 0
    assert differences["events refused, in the metrics"] == 2
    assert differences["spans over OTLP"] == -1
