"""Which executable is named when memory runs out, and how surely."""

from __future__ import annotations

from typing import Any

from jaxobs.probe.out_of_memory.evidence import NOT_WATCHED, blame

LARGE = 2**30
STEP: dict[str, Any] = {
    "function": "step",
    "executable": "beef",
    "memory": {"temporary": LARGE},
}


def test_an_error_that_came_out_of_a_watched_call_is_of_its_function() -> None:
    assert blame("step", [STEP], LARGE) == "step, beef: what was asked for is its temporary"


def test_one_that_did_not_may_have_come_after_the_call() -> None:
    said = "its temporary is as large as what was asked for; the error came out of no watched call"
    assert blame(None, [STEP], LARGE) == f"perhaps step, beef: {said}"
    assert blame(None, [STEP], 3 * LARGE) == NOT_WATCHED
