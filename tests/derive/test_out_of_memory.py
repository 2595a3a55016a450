"""What error messages say, and which executable they mean."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.jax_compat.memory import (
    matching_executable,
    named_program,
    on_chip_memory,
    requested,
    speaks_of_memory,
)
from jaxobs.model.clock import monotonic
from jaxobs.probe.out_of_memory.evidence import Ask, exhaustion, gather, summary_text

TEXTS = tomllib.loads(Path(__file__).with_name("out_of_memory.toml").read_text())["text"]
SCOPED = next(text["message"] for text in TEXTS if "ScopedVmemOom" in text["message"])


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text["message"][:60])
def test_messages_of_every_backend_are_understood(text: dict[str, Any]) -> None:
    message = text["message"]
    assert speaks_of_memory(message)
    assert requested(message) == text.get("asked")
    assert on_chip_memory(message) == text.get("on_chip")


OTHERS = [
    "",
    "INVALID_ARGUMENT: allocating 12 bytes is not allowed",
    "memory",
    "DataLoader worker (pid 7) is killed. It is possible that dataloader's workers are out of shared memory.",
    "RESOURCE_EXHAUSTED: Received message larger than max (5308389 vs. 4194304)",
    "RESOURCE_EXHAUSTED: SERVER: Sent message larger than max (544715979 vs. 536870912)",
    "RESOURCE_EXHAUSTED: Quota exceeded for quota metric 'TPU v4 cores, memory' and limit 'cores per minute'",
    "RESOURCE_EXHAUSTED: Resource has been exhausted (e.g. check quota).",
    "RESOURCE_EXHAUSTED: CLIENT: Received message larger than max (8 vs. 4) for the memory profile of worker 3",
    "RESOURCE_EXHAUSTED: Too many open files",
    "RESOURCE_EXHAUSTED: Failed to allocate 3 ports",
    "ResourceExhausted: 429 The following quota metrics exceed quota limits: aiplatform.googleapis.com/tpu_v2",
]


@pytest.mark.parametrize("message", OTHERS)
def test_other_messages_are_not_of_memory(message: str) -> None:
    assert not speaks_of_memory(message)


def test_the_program_that_could_not_be_loaded_is_named() -> None:
    assert (
        named_program("RESOURCE_EXHAUSTED: Error loading program 'jit_step_fn': Attempting to reserve 29.49G")
        == "step_fn"
    )
    assert (
        named_program("RESOURCE_EXHAUSTED: CUDA_ERROR_OUT_OF_MEMORY [executable_name='jit_copy']") == "copy"
    )
    assert named_program("RESOURCE_EXHAUSTED: Out of memory allocating 4096 bytes.") is None


def test_a_limit_of_on_chip_memory_has_a_report_of_its_own_without_arrays() -> None:
    error = RuntimeError(SCOPED)
    found = exhaustion(error)
    assert found is not None
    ask = Ask(lambda seconds: {}, lambda: pytest.fail("no executable has a part in it"))
    files = gather(found, "train_step", "rank0", {}, ask, monotonic() + 5)
    assert set(files) == {"summary.txt", "error.txt", "report.json"}
    summary = files["summary.txt"].decode()
    assert "a kernel needs more VMEM than it may have" in summary
    assert "_fwd.1" in summary
    assert "function   train_step" in summary
    assert "vmem_limit_bytes" in summary


@given(st.text())
def test_no_message_breaks_the_reading(message: str) -> None:
    for beginning in ("", "RESOURCE_EXHAUSTED: allocating ", "RESOURCE_EXHAUSTED: allocating 1.5"):
        requested(beginning + message)
    speaks_of_memory(message)
    on_chip_memory(message)


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
        "requested_bytes": 3 * 2**30, "blame": "step", "missing": {},
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
        },
    )
    assert "device 0 (cuda)   1 GiB" in full
    assert "hash of step" in full
    assert "f (4,)" in full
    assert max(map(len, full.splitlines())) < 120
    json.dumps(full)
