"""What holds of every snapshot, whatever the events and their order were."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxobs.derive.refusal import REASONS_KEPT
from jaxobs.model.events import EVENT_TYPES, ExecutableCreated, FunctionWatched, Measured, StepEnded
from tests.derive.made_up import (
    MADE_UP,
    NO_PEAKS,
    PEAKS,
    SECOND,
    applied,
    at,
    backend,
    check,
    created,
    families,
    module,
    new_fold,
    parsed,
    sound_events,
    step,
)

Other = tuple[str, Any]
others: st.SearchStrategy[Other] = st.one_of(
    st.tuples(st.just("snapshot"), st.integers(0, 100 * SECOND)),
    st.tuples(st.just("analysed"), st.tuples(st.integers(1, 4), st.booleans())),
    st.tuples(st.just("peaks"), st.booleans()),
)


def test_each_type_of_event_has_a_handler_and_is_made_up() -> None:
    assert set(EVENT_TYPES) == set(MADE_UP) == set(new_fold()._handlers)


@settings(max_examples=150, deadline=None)
@given(st.lists(sound_events | others, max_size=40), st.sampled_from([50, 120, 2_000]))
def test_counters_never_fall_and_every_snapshot_keeps_its_promises(stream: list[Any], limit: int) -> None:
    fold = new_fold(limit)
    before: dict[tuple[str, ...], float] = {}
    now = at(0)
    for item in stream:
        match item:
            case ("snapshot", ahead):
                now += ahead
                before = check(fold.snapshot(now), before)
            case ("analysed", (number, known)):
                fold.analysed(number, module() if known else None, "" if known else "unreadable")
            case ("peaks", known):
                fold.bind_peaks("example", PEAKS if known else NO_PEAKS)
            case event:
                fold.apply(event)
    last = fold.snapshot(now + 300 * SECOND)
    check(last, before)
    parsed(last.families)
    listed = last.to_dict()["executables"]
    fold.executables.changed.update(
        fold.executables._by_number
    )  # entries are drawn anew where something changed alone
    drawn = fold.snapshot(now + 300 * SECOND).to_dict()["executables"]
    assert sorted(drawn, key=str) == sorted(listed, key=str)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_events_with_anything_in_their_fields_are_refused_and_the_fold_goes_on(data: st.DataObject) -> None:
    anything = st.one_of(
        st.none(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=5), st.binary(max_size=5),
        st.booleans(), st.lists(st.integers(), max_size=2), st.tuples(st.text(max_size=2)),
        st.tuples(st.tuples(st.text(max_size=2) | st.floats(), st.none() | st.integers())),
        st.just((("argument", math.nan),)), st.just(((0, "x", 5),)), st.just((1, 2, "x")),
    )  # fmt: skip
    broken = data.draw(sound_events)
    field = data.draw(st.sampled_from(type(broken)._fields))
    fold = new_fold()
    fold.apply(broken._replace(**{field: data.draw(anything)}))
    fold.apply(step(1, 1.0, 2.0))
    snapshot = fold.snapshot(at(300))
    assert fold.observation.accepted + fold.observation.refused == 2
    assert snapshot["agent"]["refused_reasons"] or fold.observation.refused == 0
    assert families(snapshot)["jaxobs_steps_total"]["train",] >= 1.0
    snapshot.to_json()


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.booleans()), max_size=60),
    st.permutations([1, 2, 3]),
    st.lists(st.integers(1, 8), min_size=3, max_size=3),
    st.lists(st.integers(0, 2**40), min_size=3, max_size=3),
)
def test_flops_are_exactly_runs_times_cost_times_devices(
    calls: list[tuple[int, bool]], decoded: list[int], devices: list[int], flops: list[int]
) -> None:
    """Also when a module is decoded after its runs, or between them."""
    made = [created(number, "f", devices[number - 1]) for number in (1, 2, 3)]
    fold = applied(new_fold(), [backend(), *made])
    fold.bind_peaks("example", PEAKS)
    waiting = list(decoded)
    for position, (number, decode) in enumerate(calls):
        if decode and waiting:
            done = waiting.pop()
            fold.analysed(done, module(float(flops[done - 1]), fingerprint=f"h{done}"))
            fold.snapshot(at(position))
        fold.apply(step(position, position, position + 0.5, runs=(number,)))
    for done in waiting:
        fold.analysed(done, module(float(flops[done - 1]), fingerprint=f"h{done}"))
    found = families(fold.snapshot(at(1_000)))
    times = Counter(number for number, _ in calls)
    expected = sum(times[number] * flops[number - 1] * devices[number - 1] for number in (1, 2, 3))
    assert found.get("jaxobs_flops_total", {}).get(("train", "float32", "model"), 0.0) == expected
    assert found.get("jaxobs_bytes_total", {}).get(("train",), 0.0) == sum(
        times[number] * 1e6 * devices[number - 1] for number in (1, 2, 3)
    )


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1.0])
def test_amounts_that_are_no_amounts_are_refused_with_a_reason(value: float) -> None:
    fold = applied(new_fold(), [step(0, 1.0, 2.0, examples=value, tokens=8.0)])
    loop = fold.snapshot(at(3)).to_dict()["loops"]["train"]
    assert loop["examples"] is None
    assert "no finite, positive number" in loop["examples_reason"]
    assert loop["examples_per_second"] is None
    assert loop["tokens"] == 8.0
    assert fold.series.refusals.values == 1
    reasons = fold.snapshot(at(4))["agent"]["refused_reasons"]
    assert reasons == ["1 × examples= of loop `train`: no finite, positive number"]


def test_the_first_few_reasons_of_refused_events_are_kept_and_counted() -> None:
    fold = applied(new_fold(), [step(number, 2.0, 1.0) for number in range(40)])
    fold.apply(Measured("jaxobs_nobodys", (), 1.0, at(3)))
    for number in range(20):
        fold.apply(Measured(f"jaxobs_nobodys_{number}", (), 1.0, at(3)))
    agent = fold.snapshot(at(4))["agent"]
    assert agent["events_refused"] == 61
    assert agent["refused_reasons"][0].startswith("40 × StepEnded: ")
    assert "1 × jaxobs_nobodys: no plugin has declared it with 0 labels" in agent["refused_reasons"]
    assert len(agent["refused_reasons"]) == REASONS_KEPT


def test_an_event_of_which_a_value_is_refused_is_refused_and_not_accepted_too() -> None:
    fold = applied(new_fold(), [step(0, 1.0, 2.0, examples=math.nan, tokens=-1.0), step(1, 2.0, 3.0)])
    fold.apply(Measured("jaxobs_nobodys", (), 1.0, at(3)))
    assert (fold.observation.accepted, fold.observation.refused) == (1, 2)


def test_a_step_that_ends_before_it_began_is_refused_whole() -> None:
    fold = applied(new_fold(), [step(0, 1.0, 2.0), step(1, 3.0, 2.0), step(2, 3.0, 4.0, nested=1.5)])
    assert fold.snapshot(at(5)).to_dict()["loops"]["train"]["wall_seconds"] == 1.0
    assert fold.observation.refused == 2


def test_an_executable_that_is_told_twice_keeps_its_runs() -> None:
    again: ExecutableCreated = created(1)
    ran: StepEnded = step(0, 1.0, 2.0, runs=(1,))
    fold = applied(new_fold(), [backend(), FunctionWatched(-1, "f", "", at(0)), created(1), ran, again])
    fold.analysed(1, module())
    assert families(fold.snapshot(at(3)))["jaxobs_executable_runs_total"]["f", "abc"] == 1.0
