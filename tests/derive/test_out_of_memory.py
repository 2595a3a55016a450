"""What error messages say, and which executable they mean."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.jax_compat.memory import matching_executable, requested_bytes, speaks_of_memory
from jaxobs.probe.out_of_memory.summary import summary_text

MESSAGES = {
    "RESOURCE_EXHAUSTED: Out of memory allocating 400000000000000 bytes.": 400000000000000,  # CPU, JAX 0.10
    "INTERNAL: Buffer Definition Event: Error preparing computation: Out of memory allocating 16777216 bytes.": 16777216,
    "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 33762398024 bytes.": 33762398024,
    "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8.00GiB": 8 * 2**30,
    "RESOURCE_EXHAUSTED: Failed to allocate request for 32.00MiB (33554432B) on device ordinal 0": 33554432,
    "RESOURCE_EXHAUSTED: Attempting to allocate 4.5G. That was not possible.": 4608 * 2**20,
    "RESOURCE_EXHAUSTED: Error allocating device buffer: Attempting to allocate 512.0K.": 512 * 2**10,
    "RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm.": None,
}


@pytest.mark.parametrize("message", MESSAGES)
def test_messages_of_every_backend_are_understood(message: str) -> None:
    assert speaks_of_memory(message)
    assert requested_bytes(message) == MESSAGES[message]


@pytest.mark.parametrize("message", ["", "INVALID_ARGUMENT: allocating 12 bytes is not allowed", "memory"])
def test_other_messages_are_not_of_memory(message: str) -> None:
    assert not speaks_of_memory(message)


@given(st.text())
def test_no_message_breaks_the_reading(message: str) -> None:
    requested_bytes("RESOURCE_EXHAUSTED: allocating " + message)
    requested_bytes(message)


def entry(function: str, **memory: int) -> dict[str, object]:
    return {"function": function, "executable": f"hash of {function}", "memory": memory}


def test_the_executable_that_needs_what_was_asked_for_is_found() -> None:
    executables = [entry("small", temporary=10, output=20), entry("step", temporary=5_000_000, output=700)]
    found = matching_executable(executables, 5_000_064)
    assert found is not None
    assert (found[0]["function"], found[1]) == ("step", "temporary")


def test_nothing_is_guessed_where_several_could_be_meant_or_none() -> None:
    alike = [entry("one", temporary=5_000_000), entry("other", output=5_000_000)]
    assert matching_executable(alike, 5_000_000) is None
    assert matching_executable(alike, 9_000_000) is None
    assert matching_executable(alike, None) is None
    assert matching_executable([entry("tiny", output=4)], 4_000) is None


def test_the_summary_shows_what_there_is_and_needs_none_of_it() -> None:
    head = {
        "when": "2030-01-01", "pid": 7, "name": "rank0", "type": "JaxRuntimeError", "message": "RESOURCE_EXHAUSTED",
        "requested_bytes": 3 * 2**30, "blame": "step", "missing": {}, "files": {},
    }  # fmt: skip
    bare = summary_text(head)
    assert "asked for  3 GiB" in bare
    full = summary_text(
        head
        | {
            "memory_statistics": [{"device": 0, "platform": "cuda", "statistics": {"bytes_in_use": 2**30}}],
            "executables": [entry("step", argument=2**20, output=2**10, temporary=2**30, code=0, alias=0)],
            "live_arrays": {
                "count": 3,
                "bytes": 2**20,
                "groups": [
                    {
                        "shape": "(4,)",
                        "dtype": "f",
                        "sharding": "one device",
                        "count": 3,
                        "bytes": 9,
                        "line": "",
                    }
                ],
            },
        }
    )
    assert "device 0 (cuda): in use 1 GiB" in full
    assert "hash of step" in full
    assert "f(4,)" in full
    assert max(map(len, full.splitlines())) < 120
    json.dumps(full)
