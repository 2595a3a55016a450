"""Steps that are folded many at once say what they say one by one."""

from __future__ import annotations

import copy
import math
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxobs.derive.fold import Fold
from jaxobs.derive.steps import grouped
from jaxobs.model.events import (
    ROW_LENGTH,
    ExecutableRan,
    FunctionWatched,
    LoopEnded,
    StepCompleted,
    StepRows,
    steps_of_rows,
)
from jaxobs.model.metrics import HistogramValue
from tests.derive.made_up import (
    BEGAN,
    PEAKS,
    SECOND,
    applied,
    at,
    backend,
    compiled,
    created,
    families,
    module,
    new_fold,
)

MILLISECOND = 1_000_000


@st.composite
def stretches(draw: st.DrawFn) -> list[Any]:
    """Rows of one loop or two, one after the other in time, with completions, compiles and ends of loops between."""
    time, numbers = BEGAN + SECOND, {"train": 0, "eval": 0}
    items: list[Any] = []
    for _ in range(draw(st.integers(1, 6))):
        loop = draw(st.sampled_from(["train", "train", "eval"]))
        runs = draw(st.sampled_from([0, 1, -1, (1, 2)]))
        amount = draw(st.sampled_from([None, 256, 2.5, math.nan, -1]))
        varied = draw(st.booleans())
        rows: StepRows = []
        for _ in range(draw(st.integers(1, 30))):
            gap, wait = (draw(st.integers(0, 3 * MILLISECOND)) if varied else 0 for _ in "ab")
            body = draw(st.integers(0, 40 * MILLISECOND)) if varied else 7 * MILLISECOND
            time += gap + (draw(st.sampled_from([0, 5 * MILLISECOND])) if varied else 0)
            end = time + wait + body
            rows += [loop, numbers[loop], time, end, gap, wait, 1000, amount, None, 1, runs]
            numbers[loop] += 1
            time = end
        items.append(rows)
        what = draw(st.sampled_from(["nothing", "completed", "compiled", "ended", "ran"]))
        if what == "completed":
            # Of a step that has begun: the device cannot be done with a later one.
            items.append(StepCompleted(loop, max(0, numbers[loop] - draw(st.integers(1, 5))), time, 1000))
        elif what == "compiled":
            items.append(compiled((time - BEGAN) / SECOND, (time - BEGAN) / SECOND + 0.1, thread=1))
            time += SECOND // 20
        elif what == "ended":
            items.append(LoopEnded(loop, time, 0))
        elif what == "ran":
            items.append(ExecutableRan(1, 0.004, 0.0001, time))
    return items


def folded(items: list[Any], *, at_once: bool) -> Fold:
    fold = new_fold()
    fold = applied(fold, [backend(), created(1), created(2), FunctionWatched(-1, "f", "several", at(0.2))])
    fold.bind_peaks("example", PEAKS)
    fold.analysed(1, module())
    for item in items:
        if not isinstance(item, list):
            fold.apply(item)
        elif at_once:
            fold.apply_steps(item)
        else:
            for event in steps_of_rows(item):
                fold.apply(event)
    return fold


NUMBER = re.compile(r"\d+(\.\d+)?")


def same(one: Any, other: Any, path: str = "") -> None:
    if isinstance(one, dict) and isinstance(other, dict):
        assert one.keys() == other.keys(), path
        for key in one:
            same(one[key], other[key], f"{path}.{key}")
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple):
        assert len(one) == len(other), path
        for at_, (left, right) in enumerate(zip(one, other, strict=True)):
            same(left, right, f"{path}[{at_}]")
    elif isinstance(one, HistogramValue):
        assert one.counts == other.counts, path
        same(one.sum, other.sum, path)
    elif isinstance(one, float) and isinstance(other, float | int):
        assert one == pytest.approx(other, rel=1e-9, abs=1e-12), path
    elif isinstance(one, str) and isinstance(other, str):
        # Rounded for reading: a sum may be a hair above a half in one order, and below it in another.
        assert NUMBER.sub("#", one) == NUMBER.sub("#", other), path
    else:
        assert one == other, path


@settings(max_examples=100, deadline=None)
@given(stretches(), st.booleans())
def test_many_at_once_say_the_same_as_one_by_one(items: list[Any], twice: bool) -> None:
    singly, together = (folded(copy.deepcopy(items), at_once=at_once) for at_once in (False, True))
    for fold in (singly, together) if twice else ():
        fold.snapshot(at(100))
    one, other = singly.snapshot(at(200)), together.snapshot(at(200))
    assert together.observation.accepted == singly.observation.accepted
    same(other.document, one.document)
    left, right = families(one), families(other)
    for name in left.keys() | right.keys():
        if (
            name != "jaxobs_step_seconds"
        ):  # without watched calls their means are over a second, by what came together
            same(dict(right.get(name, {})), dict(left.get(name, {})), name)
    counted = [
        sum(value.count for value in shown.get("jaxobs_step_seconds", {}).values()) for shown in (left, right)
    ]
    assert abs(counted[0] - counted[1]) <= 30 * len(items)


rows_of_steps = st.lists(
    st.tuples(st.sampled_from(["train", "eval"]), st.integers(0, 5), st.integers(1, 2)), max_size=40
)


@given(rows_of_steps)
def test_groups_hold_every_step_once_and_in_order(steps: list[tuple[str, int, int]]) -> None:
    rows: StepRows = []
    for position, (loop, number, thread) in enumerate(steps):
        rows += [loop, number, position, position + 1, 0, 0, 0, None, None, thread, 0]
    if not rows:
        return
    found = list(grouped(rows))
    assert [event for group in found for event in group.events()] == list(steps_of_rows(rows))
    for group in found:
        assert {(event.loop, event.thread) for event in group.events()} == {(group.loop, group.thread)}
        assert [event.step for event in group.events()] == list(range(group.first, group.last + 1))


def test_rows_that_are_cut_are_refused() -> None:
    with pytest.raises(ValueError, match="no whole rows"):
        list(grouped(["train"] * (ROW_LENGTH + 1)))


def test_amounts_whose_sum_is_too_large_end_nothing() -> None:
    """An OverflowError of the sum had left the fold, and with it the agent."""
    rows: StepRows = []
    for number, examples in enumerate([1e308, 1.7e308]):
        start = at(1) + number * MILLISECOND
        rows += ("train", number, start, start + MILLISECOND, 0, 0, 0, examples, None, 1, 0)
    fold = new_fold()
    fold.apply_steps(rows)
    assert (fold.observation.accepted, fold.observation.refused) == (2, 0)
    assert math.isfinite(fold.snapshot(at(2)).to_dict()["loops"]["train"]["examples"])
