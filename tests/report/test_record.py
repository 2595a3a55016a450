from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxobs.report.record import MAX_BYTES, RecordError, decoded, encoded
from tests.report.made_up import again, content, executable
from tests.sample_document import device_time


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 3_000), st.integers(0, 3_000))
def test_a_record_is_small_however_much_there_is(executables: int, functions: int) -> None:
    record = content()
    record["snapshot"]["executables"] = [
        executable(f"f{number}", note="x" * 2_000) for number in range(executables)
    ]
    record["snapshot"]["functions"] = {
        name: entry for number in range(functions) for name, entry in again(f"f{number}", 1).items()
    }
    data = encoded(record)
    assert len(data) <= MAX_BYTES
    kept = decoded(data, "a").snapshot
    assert len(kept["executables"]) + kept.get("executables_left_out", 0) == executables
    assert len(kept["functions"]) + kept.get("functions_left_out", 0) == functions


def test_what_takes_longest_is_kept() -> None:
    record = content()
    record["snapshot"]["executables"] = [
        executable(f"f{number}", seconds=float(number)) for number in range(300)
    ]
    kept = decoded(encoded(record), "a").entries("executables")
    assert min(entry["seconds"] for entry in kept) == 300 - len(kept)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"[]", "no record of a run"),
        (b'{"format": "other"}', "no record of a run"),
        (json.dumps(content() | {"version": 99}).encode(), "version 99"),
        (json.dumps(content() | {"snapshot": None}).encode(), "not whole"),
    ],
)
def test_what_is_no_record_is_refused_with_the_reason(data: bytes, words: str) -> None:
    with pytest.raises(RecordError, match=words):
        decoded(data, "file.json")


def test_device_time_by_call_path_is_whole_or_absent_with_the_reason() -> None:
    record = content()
    record["snapshot"]["device_time"] = device_time()
    assert decoded(encoded(record), "a").snapshot["device_time"] == device_time()
    record["snapshot"]["executables"] = [executable(f"f{number}", note="x" * 50_000) for number in range(300)]
    kept = decoded(encoded(record), "a").snapshot
    assert kept["device_time"] is None
    assert "too large" in kept["device_time_reason"]
