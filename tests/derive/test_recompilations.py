"""Recompiles in the snapshot: ranked by what they cost, with their reasons, and the persistent cache beside them."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.derive.compiles import MAX_ROWS
from jaxobs.model import events
from jaxobs.model.events import Attributes, Compilation, CompilePhaseStarted, ProbeReported
from tests.derive.made_up import SECOND, applied, at, families, new_fold

later = itertools.count(0, 100)
"""When each compile begins: they come one after the other on one thread."""


def again(
    cause: str | None,
    argument: str | None = None,
    *,
    seconds: int = 1,
    site: int = 7,
    **told: str | int | float,
) -> Compilation:
    attributes: Attributes = ((events.CALL_FILE, "/home/ada/train.py"), (events.CALL_LINE, site))
    if argument is not None:
        attributes += ((events.MISS_ARGUMENT, argument),)
    attributes += tuple((getattr(events, name), value) for name, value in told.items())
    begin = next(later)
    phases = (
        ("trace", at(begin), at(begin + 1)), ("lower", at(begin + 1), at(begin + 2)),
        ("backend", at(begin + 2), at(begin + 2 + seconds)), ("cache_read", at(begin + 2), at(begin + 3)),
    )  # fmt: skip
    return Compilation("step", 1, 1, at(begin + 9), phases, "off", cause, attributes, None)


def document(*compilations: Compilation) -> dict[str, Any]:
    return dict(applied(new_fold(), list(compilations)).snapshot(at(60)).to_dict())


def test_reasons_are_ranked_by_the_seconds_they_cost() -> None:
    step = document(
        again(None),
        again("shape", "x", MISS_OLD="float32[8]", MISS_NEW="float32[9]", MISS_DIFFERENCES=2),
        again("shape", "x", MISS_OLD="float32[8]", MISS_NEW="float32[7]", MISS_DIFFERENCES=1),
        again("dtype", "y", seconds=10, MISS_OLD="float32[8]", MISS_NEW="bfloat16[8]", MISS_DIFFERENCES=1),
    )["functions"]["step"]
    assert (step["compilations"], step["recompilation_count"]) == (4, 3)
    dtype, shape = step["recompilations"]
    assert (dtype["cause"], dtype["count"], dtype["seconds"]) == ("dtype", 1, 12.0)
    assert shape == {
        "cause": "shape", "argument": "x", "argument_reason": None, "old": "float32[8]", "old_reason": None,
        "new": "float32[7]", "new_reason": None, "differences": 1, "call_site": "/home/ada/train.py:7",
        "call_site_reason": None, "count": 2, "seconds": 6.0, "grows": False,
    }  # fmt: skip


def test_each_call_site_is_a_reason_of_its_own() -> None:
    rows = document(again(None), again("shape", "x", site=7), again("shape", "x", site=8))["functions"][
        "step"
    ]
    assert sorted(row["call_site"] for row in rows["recompilations"]) == [
        "/home/ada/train.py:7", "/home/ada/train.py:8",
    ]  # fmt: skip


def test_what_is_not_known_has_its_reason() -> None:
    step = document(again(None), again("other", MISS_REASON="it was let go of"), again("redefined"))
    for row in step["functions"]["step"]["recompilations"]:
        assert row["argument"] is None
        assert row["argument_reason"]
        assert row["old_reason"]
    assert "it was let go of" in {
        row["argument_reason"] for row in step["functions"]["step"]["recompilations"]
    }


def test_a_storm_of_reasons_keeps_the_table_and_the_count() -> None:
    storm = [again("shape", f"x[{number}]") for number in range(3 * MAX_ROWS)]
    step = document(again(None), *storm)["functions"]["step"]
    assert len(step["recompilations"]) == MAX_ROWS + 1
    assert sum(row["count"] for row in step["recompilations"]) == step["recompilation_count"] == 3 * MAX_ROWS
    summed = next(row for row in step["recompilations"] if row["argument"] is None)
    assert summed["count"] == 2 * MAX_ROWS
    assert "too many" in summed["argument_reason"]


def test_seconds_lost_are_counted_by_cause_from_zero() -> None:
    fold = applied(new_fold(), [again(None), again("shape", "x"), again("context", "mesh", seconds=4)])
    lost = families(fold.snapshot(at(60)))["jaxobs_recompilation_seconds_total"]
    assert lost["shape",] == 3.0
    assert lost["context",] == 6.0
    assert lost["other",] == 0.0
    assert len(lost) == 9


@pytest.mark.parametrize(
    "name", ["jaxobs_persistent_cache_enabled", "jaxobs_persistent_cache_saved_seconds_total"]
)
def test_the_persistent_cache_is_not_known_before_a_compile(name: str) -> None:
    snapshot = new_fold().snapshot(at(1))
    cache = snapshot.to_dict()["process"]["persistent_cache"]
    assert (cache["enabled"], cache["enabled_reason"]) == (None, "nothing was compiled yet")
    assert ("enabled" in name) == (name not in families(snapshot))


def test_the_persistent_caches_outcomes_and_savings_are_told() -> None:
    def compiled(outcome: str, saved: float | None = None) -> Compilation:
        attributes: Attributes = () if saved is None else ((events.CACHE_SECONDS_SAVED, saved),)
        return Compilation("step", 1, 1, at(9), (), outcome, None, attributes, None)

    off = document(compiled("off"))["process"]["persistent_cache"]
    assert (off["enabled"], off["hits"], off["misses"], off["seconds_saved"]) == (False, 0, 0, 0.0)
    fold = applied(
        new_fold(),
        [compiled("miss"), compiled("hit", 2.5), compiled("hit", -0.5), compiled("hit", float("nan"))],
    )
    snapshot = fold.snapshot(at(60))
    assert snapshot.to_dict()["process"]["persistent_cache"] == {
        "enabled": True, "enabled_reason": None, "hits": 3, "misses": 1, "compilations_without": 0,
        "seconds_saved": 2.0, "seconds_without": 0.0, "seconds_not_kept": 0.0,
    }  # fmt: skip
    assert families(snapshot)["jaxobs_persistent_cache_enabled"] == {(): 1.0}
    assert families(snapshot)["jaxobs_persistent_cache_saved_seconds_total"] == {(): 2.5}


def test_a_cache_that_was_switched_on_or_off_meanwhile_has_what_was_compiled_without_it() -> None:
    def compiled(outcome: str, begin: float, length: float) -> Compilation:
        phases = (("trace", at(begin - 1), at(begin)), ("backend", at(begin), at(begin + length)))
        return Compilation("step", 1, 1, at(begin + length), phases, outcome, None, (), None)

    fold = applied(
        new_fold(), [compiled("off", 10, 20.0), compiled("off", 40, 0.5), compiled("miss", 50, 3.0)]
    )
    on = fold.snapshot(at(60)).to_dict()
    cache = on["process"]["persistent_cache"]
    assert cache["enabled"] is True
    assert cache["enabled_reason"] == "of the latest compile: 2 of 3 could not use the cache"
    assert (cache["seconds_without"], cache["seconds_not_kept"]) == (20.5, 20.0)
    assert on["advice"] == []  # it is on now
    off = applied(fold, [compiled("off", 60, 2.0)]).snapshot(at(70)).to_dict()
    assert off["process"]["persistent_cache"]["enabled"] is False
    assert off["process"]["persistent_cache"]["enabled_reason"].startswith("of the latest compile: 3 of 4")
    (advice,) = off["advice"]
    assert advice["condition"] == "persistent_cache"
    assert advice["saves_ratio"] == pytest.approx(22.0 / 70.0)
    assert "22.5 s of this start" in advice["sentence"]


def nested(
    function: str, cause: str | None, *phases: tuple[str, float, float], thread: int = 1
) -> Compilation:
    spans = tuple((phase, at(begin), at(end)) for phase, begin, end in phases)
    return Compilation(function, 1, thread, max(end for _, _, end in spans), spans, "off", cause, (), None)


def test_what_is_compiled_within_another_functions_trace_is_counted_once() -> None:
    """`outer` is traced for 10 s, in which `inner` and then a first compile take 4 s and 1 s."""
    fold = applied(
        new_fold(),
        [
            nested("innermost", "shape", ("trace", 3.0, 3.25), ("backend", 3.25, 3.5)),
            nested("inner", "shape", ("trace", 3.0, 4.0), ("lower", 4.0, 5.0), ("backend", 5.0, 7.0)),
            nested("first", None, ("backend", 8.0, 9.0)),
            nested("elsewhere", "shape", ("trace", 1.0, 12.0), thread=2),
            nested("outer", "shape", ("trace", 1.0, 11.0), ("lower", 11.0, 12.0), ("backend", 13.0, 15.0)),
            nested("after", "shape", ("trace", 15.0, 16.0)),
        ],
    )
    snapshot = fold.snapshot(at(60))
    rows = {name: entry["recompilations"] for name, entry in snapshot.to_dict()["functions"].items()}
    spent = {name: found[0]["seconds"] for name, found in rows.items() if found}
    assert spent == pytest.approx(
        {"innermost": 0.5, "inner": 3.5, "outer": 10.0 - 5.0 + 1.0 + 2.0, "elsewhere": 11.0, "after": 1.0}
    )
    lost = families(snapshot)["jaxobs_recompilation_seconds_total"]
    assert lost["shape",] == pytest.approx(sum(spent.values()))


begins = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 40)), min_size=1, max_size=12)


@given(begins)
def test_the_seconds_of_all_rows_are_never_more_than_a_thread_spent(spans: list[tuple[int, int]]) -> None:
    ordered = sorted((begin + length, begin) for begin, length in spans)
    fold = applied(
        new_fold(),
        [nested(f"f{i}", "shape", ("trace", begin, end)) for i, (end, begin) in enumerate(ordered)],
    )
    lost = families(fold.snapshot(at(200)))["jaxobs_recompilation_seconds_total"]["shape",]
    covered = {second for end, begin in ordered for second in range(begin, end)}
    assert lost == pytest.approx(len(covered))


def test_a_compile_whose_end_may_be_lost_is_not_said_to_go_on() -> None:
    fold = applied(new_fold(), [CompilePhaseStarted("step", "backend", 7, at(1))])
    fold.apply(ProbeReported(0, 0, 0, 0, 0.0, at(2)))
    snapshot = fold.snapshot(at(60))
    assert families(snapshot)["jaxobs_compiling_seconds"] == {("step",): 59.0}
    assert snapshot.document["process"]["compiling_phases"] == {"step": "backend"}
    fold.apply(ProbeReported(0, 3, 0, 0, 0.0, at(61)))
    assert "jaxobs_compiling_seconds" not in families(fold.snapshot(at(3_600)))


def test_a_span_says_why_and_where() -> None:
    fold = applied(new_fold(), [again("shape", "x", MISS_OLD="float32[8]", MISS_NEW="float32[9]")])
    fold.end(at(1_000_000), by_itself=True)
    whole, *_ = fold.spans.take()
    attributes = dict(whole.attributes)
    assert attributes["jax.recompilation.cause"] == "shape"
    assert attributes["jax.recompilation.argument"] == "x"
    assert attributes["jax.recompilation.old"] == "float32[8]"
    assert attributes["jax.recompilation.new"] == "float32[9]"
    assert (attributes["code.file.path"], attributes["code.line.number"]) == ("/home/ada/train.py", 7)


def grown(*sizes: int, used: int = 600) -> bool:
    """Whether a function that was compiled for these sizes, each after the last was in use for so long, grows."""
    fold = new_fold()
    for number, (old, new) in enumerate(itertools.pairwise((sizes[0], *sizes))):
        end = at((number + 1) * used)
        told: Attributes = (
            (events.MISS_ARGUMENT, "x"),
            (events.MISS_OLD, f"int32[8,{old}]"),
            (events.MISS_NEW, f"int32[8,{new}]"),
        )
        cause = "shape" if number else None
        phases = (("backend", end - 30 * SECOND, end),)
        fold.apply(Compilation("step", number, 1, end, phases, "off", cause, told if number else (), None))
    (reason,) = fold.snapshot(at(10_000)).to_dict()["functions"]["step"]["recompilations"]
    return bool(reason["grows"])


def test_sizes_grow_on_purpose_where_each_is_larger_and_the_one_before_was_in_use_for_long() -> None:
    assert grown(128, 256, 512)
    assert not grown(128, 256, 192)  # one is smaller
    assert not grown(128, 256, 512, used=200)  # a compile of 30 s, for sizes of 170 s
    assert not grown(128, 128)
