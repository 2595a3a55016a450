"""A job that compiles without end: its agent stays small and quick, and says what it left out."""

from __future__ import annotations

import time
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.derive.compiles import MAX_LISTED as FUNCTIONS_LISTED
from jaxobs.derive.executables import registry
from jaxobs.derive.executables.registry import LET_GO, Executables
from jaxobs.derive.executables.view import LISTED
from jaxobs.derive.fold import Fold
from jaxobs.model.cost import Cost, ModuleCost, OperationCost
from jaxobs.model.events import Compilation, ExecutableCreated, ExecutableRan, FunctionCalled, FunctionWatched
from jaxobs.report.summary import MAX_FUNCTIONS, render
from tests.derive.made_up import PEAKS, applied, at, backend, check, compiled, created, module, new_fold, step

MANY = 10_000


def crowd(many: int) -> Fold:
    """One watched function that was compiled for each of so many shapes."""
    fold = applied(new_fold(), [backend(), FunctionWatched(-1, "f", "", at(0))])
    fold.bind_peaks("example", PEAKS)
    for number in range(1, many + 1):
        end = number / 1000
        fold.apply(compiled(end - 0.0005, end))
        fold.apply(Compilation("f", number, 1, at(end), (), "off", None, (), None))
        fold.apply(created(number))
        fold.analysed(number, module(1e9 + number, fingerprint=f"h{number}"))
        fold.apply(FunctionCalled(number, 1, at(end)))
        fold.apply(ExecutableRan(number, 1e-6 * number, 0.0, at(end)))
    fold.snapshot(at(11))
    return fold


@pytest.fixture(scope="module")
def crowded() -> Fold:
    return crowd(MANY)


def test_the_largest_are_listed_and_the_rest_is_counted(crowded: Fold) -> None:
    snapshot = crowded.snapshot(at(12))
    check(snapshot, {})
    document = snapshot.to_dict()
    listed = [entry["executable"] for entry in document["executables"]]
    assert listed[:2] == [f"h{MANY}", f"h{MANY - 1}"]
    assert len(listed) == LISTED
    assert document["executables_left_out"] == MANY - LISTED
    assert "most device time" in document["executables_left_out_reason"]


def test_the_one_that_needs_the_most_memory_is_listed_however_small_it_is_otherwise() -> None:
    fold = applied(new_fold(), [ExecutableCreated(0, "big", at(1), b"x", "", (("temporary", 2**30),), 1)])
    for number in range(1, 2 * LISTED):
        fold.apply(created(number))
        fold.analysed(number, module(fingerprint=f"h{number}"))
    fold.analysed(0, module(1.0, fingerprint="big"))
    document = fold.snapshot(at(2)).to_dict()
    assert len(document["executables"]) == LISTED
    assert document["process"]["peak_executable"]["function"] == "big"


def test_of_thousands_of_functions_the_dearest_are_listed_and_the_rest_is_summed() -> None:
    fold = new_fold()
    for number in range(MANY):
        fold.apply(compiled(number, number + 1e-3 * (number + 1), function=f"f{number}"))
    snapshot = fold.snapshot(at(MANY + 1))
    check(snapshot, {})
    document = snapshot.to_dict()
    names = list(document["functions"])
    assert names == [f"f{number}" for number in range(MANY - 1, MANY - 1 - FUNCTIONS_LISTED, -1)]
    assert document["functions_left_out"] == MANY - FUNCTIONS_LISTED
    listed = sum(function["seconds"]["backend"] for function in document["functions"].values())
    assert listed + document["functions_left_out_seconds"] == pytest.approx(MANY * (MANY + 1) / 2 * 1e-3)
    assert f"{MANY - MAX_FUNCTIONS:,} cheaper ones are not shown" in render(snapshot.document)
    began = time.process_time()
    fold.snapshot(at(MANY + 2))
    assert time.process_time() - began < 0.02  # some 0.6 ms on an idle machine; 26 ms when all were looked at


def test_a_snapshot_and_a_step_cost_what_changed_and_not_what_there_is(crowded: Fold) -> None:
    """They cost as much with a tenth of the executables. When all were looked at, a snapshot took three times as long."""
    smaller = crowd(MANY // 10)
    snapshots, steps = defaultdict[Fold, list[float]](list), defaultdict[Fold, list[float]](list)
    for turn in range(20):
        for fold in (crowded, smaller):
            began = time.process_time()
            for number in range(20):
                fold.apply(step(number, 20 + turn, 20.01 + turn, runs=(number + 1,)))
            steps[fold].append(time.process_time() - began)
            began = time.process_time()
            fold.snapshot(at(21 + turn))
            snapshots[fold].append(time.process_time() - began)
    assert min(snapshots[crowded]) < 1.6 * min(snapshots[smaller])
    assert min(steps[crowded]) < 1.6 * min(steps[smaller])


def test_a_function_that_is_watched_once_more_has_no_executable_looked_at_again() -> None:
    """A search that makes its step anew for each trial had all earlier ones looked at after each."""
    executables = Executables()
    for number in range(1, 4):
        executables.created(created(number))
    executables.watched(FunctionWatched(-1, "f", "", at(0)))
    assert [each.number for each in executables.settle()] == [1, 2, 3]
    executables.watched(FunctionWatched(-2, "f", "", at(1)))
    assert executables.settle() == []


def test_those_without_their_operations_keep_their_cost_and_bound_and_say_what_they_lack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry, "OPERATIONS_KEPT", 3)  # 100 000 would take the test a minute
    fold = applied(new_fold(), [backend()])
    for number in range(1, 6):
        fold.apply(created(number))
        fold.analysed(number, module(fingerprint=f"h{number}"))
    fold.bind_peaks("example", PEAKS)
    entries = {entry["executable"]: entry for entry in fold.snapshot(at(2)).to_dict()["executables"]}
    for name in ("h1", "h2"):
        assert entries[name]["cost"]["flops"] == 1e9
        assert (entries[name]["bound_seconds"], entries[name]["bound_seconds_reason"]) == (None, LET_GO)
        assert entries[name]["bottleneck"]["label"] == "unknown"
    assert all(entries[name]["bound_seconds"] == pytest.approx(1e-3) for name in ("h3", "h4", "h5"))
    fold.apply(created(6))
    fold.analysed(6, module(fingerprint="h6"))  # takes the place of h3, whose bound time is known by now
    entries = {entry["executable"]: entry for entry in fold.snapshot(at(3)).to_dict()["executables"]}
    assert entries["h3"]["bound_seconds"] == pytest.approx(1e-3)


OPERATION = OperationCost("dot", "dot", "", "", "", 1.0, Cost())


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 6), st.booleans()), max_size=40))
def test_no_more_operations_are_kept_than_may_be_and_those_used_last_stay(
    turns: list[tuple[str, int, bool]],
) -> None:
    executables, order = Executables(), list[str]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "OPERATIONS_KEPT", 10)
        for name, count, use in turns:
            number = ord(name)
            executables.created(created(number))
            if use:
                executables.changed = {number}
                executables.settle()  # it ran
                order.sort(key=name.__eq__)
            else:
                executables.analysed(number, ModuleCost(name, Cost(), (OPERATION,) * count), "")
                order = [other for other in order if other != name] + [name]
            held = list(executables._operations)
            assert sum(map(len, executables._operations.values())) <= 10
            assert held == order[len(order) - len(held) :]
            order = held
