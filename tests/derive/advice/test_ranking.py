"""Whatever is true of a job, and whatever is missing: at most five, the most seconds first, nothing invented."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.derive.advice import CONDITIONS, MAX_PIECES, URGENT_SECONDS
from jaxobs.derive.advice.of_compiles import MIN_SAVED
from tests.derive.advice import documents
from tests.derive.advice.documents import Document, advise

Path = tuple[Any, ...]


def hold(advice: list[dict[str, Any]]) -> None:
    """What holds of any advice."""
    assert len(advice) <= MAX_PIECES
    assert len({(piece["condition"], piece.get("loop"), piece.get("function")) for piece in advice}) == len(
        advice
    )
    urgent = [left for piece in advice if (left := piece.get("seconds_left")) and left <= URGENT_SECONDS]
    assert [piece.get("seconds_left") for piece in advice[: len(urgent)]] == sorted(urgent)
    saved = [piece["saves_ratio"] for piece in advice[len(urgent) :]]
    timed = [ratio for ratio in saved if ratio is not None]
    assert timed == sorted(timed, reverse=True)
    assert saved == timed + [None] * (len(saved) - len(timed))  # what saves no time comes last
    assert all(MIN_SAVED <= ratio <= 1.0 for ratio in timed)
    for piece in advice:
        assert piece["condition"] in {condition.__name__ for condition in CONDITIONS}
        assert ("saves_bytes" in piece or "seconds_left" in piece) is (piece["saves_ratio"] is None)
        assert 0.1 <= piece["confidence"] <= 1.0
    json.dumps(advice, allow_nan=False)


@pytest.mark.parametrize(("left", "place"), [(1_200.0, 0), (7_200.0, 4)])
def test_memory_that_runs_out_within_the_hour_comes_first(left: float, place: int) -> None:
    document = documents.with_shares(documents.running_out(left), "input", input=0.3, host=0.2, latency=0.2)
    document["functions"] = documents.recompiling()["functions"]
    document["process"] = documents.without_a_cache()["process"]
    advice = advise(document)
    hold(advice)
    assert [piece["condition"] for piece in advice].index("memory_exhaustion") == place


def test_of_everything_that_is_wrong_the_five_that_cost_most_are_told() -> None:
    advice = advise(documents.everything_wrong())
    hold(advice)
    told = [piece["condition"] for piece in advice]
    assert told == [
        "input_wait",
        "slow_element_type",
        "host_work",
        "exposed_communication",
        "small_operations",
    ]


def test_memory_is_told_where_there_is_room() -> None:
    document = documents.not_donated()
    document["functions"] = documents.recompiling()["functions"]
    assert [piece["condition"] for piece in advise(document)] == ["recompilation", "donation"]


def test_several_executables_of_one_function_are_told_by_the_largest() -> None:
    document = documents.not_donated(2 * 2**30)
    document["executables"].append(documents.not_donated(3 * 2**30)["executables"][0])
    (piece,) = advise(document)
    assert piece["saves_bytes"] == 3 * 2**30


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """Of everything in a document."""
    if path:
        yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from paths(part, (*path, key))


def changed(document: Document, path: Path, new: Any) -> None:
    """Set what lies there; `...` takes it away. A path that another change has cut off is left."""
    place: Any = document
    for key in path[:-1]:
        try:
            place = place[key]
        except (KeyError, IndexError, TypeError):
            return
    if isinstance(place, dict):
        place[path[-1]] = new
        if new is ...:
            del place[path[-1]]
    elif isinstance(place, list) and isinstance(path[-1], int) and path[-1] < len(place):
        place[path[-1] : path[-1] + 1] = [] if new is ... else [new]


numbers = st.just(0.0) | st.floats(1e-9, 1e18)
"""Nanoseconds to exaFLOPs: what a view can hold."""


@st.composite
def damaged(draw: st.DrawFn) -> Document:
    document = copy.deepcopy(documents.everything_wrong())
    every = sorted(paths(document), key=str)
    for path in draw(st.lists(st.sampled_from(every), min_size=1, max_size=8)):
        absent = draw(st.sampled_from([..., None]))
        number = draw(numbers) if is_amount(document, path) else absent
        changed(document, path, draw(st.sampled_from([absent, number])))
    return document


def is_amount(document: Document, path: Path) -> bool:
    """Whether a number lies there, and none that is a share by what it is."""
    found: Any = document
    for key in path:
        if not isinstance(found, dict | list) or (isinstance(found, dict) and key not in found):
            return False
        if isinstance(found, list) and key >= len(found):
            return False
        found = found[key]
    shares = {"confidence", "shares", "share", "compute_taken_ratio", "memory_taken_ratio"}
    return isinstance(found, float) and not shares & set(path)


@given(damaged())
def test_a_snapshot_with_any_amounts_in_it_is_read(document: Document) -> None:
    hold(advise(document))


quiet_paths = sorted((path for path in paths(documents.quiet()) if "matrix" not in path), key=str)


@given(
    st.lists(st.tuples(st.sampled_from(quiet_paths), st.sampled_from([..., None])), min_size=1, max_size=6)
)
def test_what_is_missing_is_no_reason_for_advice(missing: list[tuple[Path, Any]]) -> None:
    document = documents.quiet()
    for path, nothing in missing:
        changed(document, path, nothing)
    assert advise(document) == []


@given(st.sampled_from(list(documents.TRUE)), st.data())
def test_what_is_missing_leaves_at_most_what_was_true(condition: str, data: st.DataObject) -> None:
    document = documents.TRUE[condition]()
    known = sorted((path for path in paths(document) if "matrix" not in path), key=str)
    for path in data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=4)):
        changed(document, path, None)
    advice = advise(document)
    hold(advice)
    assert {piece["condition"] for piece in advice} <= {condition}
