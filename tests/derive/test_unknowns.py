"""The document: its keys, and for each value that is not known the reason why."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from jaxobs.derive.fold import Fold
from jaxobs.derive.loops.view import NO_END_SEEN
from jaxobs.model.events import (
    ExecutableCreated,
    ExecutableRan,
    FunctionCalled,
    FunctionWatched,
    Recorded,
    SourceReported,
)
from jaxobs.model.snapshot import DOCUMENT_KEYS
from jaxobs.report.snapshot import absent_snapshot
from tests.derive.made_up import (
    NO_PEAKS,
    PEAKS,
    applied,
    at,
    backend,
    check,
    compiled,
    created,
    module,
    new_fold,
    step,
    unexplained,
    waits,
)

KEYS = set(DOCUMENT_KEYS)


def nothing(fold: Fold) -> None:
    """The process has just begun."""


def unwatched(fold: Fold) -> None:
    applied(
        fold,
        [backend(), compiled(1, 2), created(1), step(0, 2.0, 3.0), Recorded("train", "loss", 1.0, at(3))],
    )
    fold.analysed(1, module())


def unknown_device(fold: Fold) -> None:
    watched(fold)
    fold.bind_peaks("example", NO_PEAKS)


def peaks_not_found_yet(fold: Fold) -> None:
    applied(fold, [backend(), created(1), FunctionWatched(-1, "f", "x", at(1)), step(0, 1.0, 2.0, runs=(1,))])
    fold.analysed(1, module())


def refused_module(fold: Fold) -> None:
    applied(fold, [backend(), created(1, proto=None), created(2), created(3)])
    fold.bind_peaks("example", PEAKS)
    fold.analysed(2, None, "its module could not be read: truncated")


def watched(fold: Fold) -> None:
    applied(fold, [backend(), created(1), FunctionWatched(-1, "f", "x", at(1)), FunctionCalled(1, 3, at(1))])
    fold.bind_peaks("example", PEAKS)
    fold.analysed(1, module())
    fold.apply(ExecutableRan(1, 0.01, 0.001, at(2)))
    fold.apply(waits())
    applied(fold, [step(i, i, i + 0.5, runs=(1,), examples=1.0, tokens=2.0) for i in range(10)])


def not_visible_which(fold: Fold) -> None:
    watched(fold)
    fold.apply(FunctionWatched(-1, "f", "it has several executables", at(3)))
    fold.apply(step(11, 12.0, 13.0, runs=(-1,)))


def no_work(fold: Fold) -> None:
    watched(fold)
    fold.apply(ExecutableCreated(2, "g", at(1), b"x", "", (), 1))
    fold.analysed(2, module(matrix=0.0, moved=0.0, fingerprint="none"))


def failing_source(fold: Fold) -> None:
    fold.apply(SourceReported("nvidia", "collector", False, 0.1, 3, None, "no driver", at(1)))


SITUATIONS = [
    nothing, unwatched, unknown_device, peaks_not_found_yet, refused_module, watched, not_visible_which, no_work,
    failing_source,
]  # fmt: skip


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("later", [20.0, 500.0])
def test_every_absent_value_has_its_reason(situation: Callable[[Fold], None], later: float) -> None:
    fold = new_fold()
    situation(fold)
    assert fold.observation.refused == 0
    snapshot = fold.snapshot(at(later))
    document = snapshot.to_dict()
    assert unexplained(document) == []
    assert document.keys() >= KEYS
    assert json.loads(snapshot.to_json()) == document
    check(snapshot, {})


def test_the_walk_would_find_an_absent_value_without_a_reason() -> None:
    assert unexplained({"a": [{"b": None, "c": None, "c_reason": "because"}]}) == [".a[0].b"]


def test_a_snapshot_that_the_agent_did_not_give_says_so_of_every_key() -> None:
    document = absent_snapshot("the agent did not answer within 2 s").to_dict()
    assert {key for key in document if not key.endswith("_reason")} == KEYS
    assert unexplained(document) == []


def test_a_module_that_was_refused_is_shown_with_the_reason() -> None:
    fold = new_fold()
    refused_module(fold)
    entries = {entry["executable"]: entry for entry in fold.snapshot(at(3)).to_dict()["executables"]}
    assert entries["number-1"]["cost_reason"] == "the module has 9 bytes, more than 8"
    assert entries["number-2"]["cost_reason"] == "its module could not be read: truncated"
    assert (
        entries[None]["cost_reason"] == entries[None]["executable_reason"] == "its module is being analysed"
    )
    assert all(entry["cost"] is None for entry in entries.values())


def test_a_watched_loop_has_everything_that_the_contract_names() -> None:
    fold = new_fold()
    watched(fold)
    document = fold.snapshot(at(12)).to_dict()
    assert document["loops"]["train"].keys() >= {
        "steps", "failed_steps", "examples", "tokens", "wall_seconds", "step_seconds", "step_seconds_source",
        "host_seconds", "steps_per_second", "examples_per_second", "tokens_per_second", "components", "mfu", "hfu",
        "recorded", "bottleneck",
    }  # fmt: skip
    assert document["loops"]["train"]["bottleneck"].keys() >= {"label", "confidence", "runner_up", "shares"}
    (executable,) = document["executables"]
    assert executable["runs"] == 13
    assert executable["seconds"] == pytest.approx(0.13)
    assert executable["efficiency"] == pytest.approx(0.1)
    assert document["devices"][1]["peaks"]["matrix"]["float32"]["provenance"] == "user"
    assert document["agent"]["cpu_seconds"].keys() >= {"probe", "agent"}


def test_before_a_run_is_seen_to_end_mfu_says_what_would_keep_it_unknown_afterwards() -> None:
    fold = applied(new_fold(), [backend(), FunctionWatched(-1, "f", "no function of jax.jit", at(0))])
    fold.bind_peaks("example", PEAKS)
    fold.apply(step(0, 1.0, 2.0, runs=(-1,)))
    loop = fold.snapshot(at(3)).to_dict()["loops"]["train"]
    assert loop["steps_per_second_reason"] == NO_END_SEEN
    assert (loop["steps"], loop["bottleneck"]["reason"]) == (1, "no step has been seen to end yet")
    assert loop["mfu_reason"] == loop["hfu_reason"] == "f: no function of jax.jit"
    fold.apply(waits(2))
    applied(fold, [step(number, number + 1, number + 2, runs=(-1,)) for number in range(1, 9)])
    loop = fold.snapshot(at(10)).to_dict()["loops"]["train"]
    assert (loop["steps_per_second"], loop["mfu_reason"]) == (1.0, "f: no function of jax.jit")
