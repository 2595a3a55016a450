"""Which parts of a profiler window belong to which loop."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.derive.profiler_windows.parts import LoopSpans, parts_of
from jaxobs.derive.steps import StepLog, Steps
from jaxobs.model.clock import NANOSECONDS
from tests.derive.made_up import at, step

SECOND = NANOSECONDS


def span(
    start: float, end: float, *, wait: float = 0.0, nested: float = 0.0, compiling: float = 0.0
) -> Steps:
    steps = Steps.of(step(0, start, end, wait=wait, nested=nested))
    steps.compiling = round(compiling * SECOND)
    return steps


def loop(*steps: Steps, phases: tuple[tuple[int, int], ...] = ()) -> LoopSpans:
    log = StepLog(1_000)
    for each in steps:
        log.append(each)
    spans = LoopSpans(log)
    spans.phases.extend(phases)
    return spans


def test_whole_steps_count_and_those_at_the_edges_do_not() -> None:
    steps = [span(number, number + 1, wait=0.25) for number in range(5)]
    part = parts_of(at(0.5), at(3.5), {"train": loop(*steps)})["train"]
    assert part.spans == ((at(1), at(3)),)
    assert (part.steps, part.active_seconds) == (2.0, 2.0)
    assert sum(stop - first for first, stop in part.inputs) == 0.5 * SECOND


def test_of_a_step_longer_than_the_window_the_part_inside_counts() -> None:
    part = parts_of(at(2), at(4), {"train": loop(span(0, 8))})["train"]
    assert part.spans == ((at(2), at(4)),)
    assert part.steps == pytest.approx(0.25)


def test_an_inner_loop_and_a_phase_are_not_the_outer_loops() -> None:
    loops = {
        "train": loop(span(0, 10, nested=5), phases=((at(7), at(9)),)),
        "eval": loop(span(1, 2), span(2, 4)),
    }
    parts = parts_of(at(0), at(10), loops)
    assert parts["train"].spans == ((at(0), at(1)), (at(4), at(7)), (at(9), at(10)))
    assert parts["eval"].spans == ((at(1), at(4)),)
    assert parts["train"].steps == pytest.approx(1.0)


def test_a_step_that_the_start_of_the_profiler_held_up_is_of_no_other_kind() -> None:
    steps = loop(span(0, 6), span(6, 7), span(7, 8), span(8, 9))  # the first would have taken one second
    part = parts_of(at(5.5), at(8.5), {"train": steps}, 5 * SECOND)["train"]
    assert (part.spans, part.whole) == (((at(6), at(8)),), True)
    assert not parts_of(at(5.5), at(8.5), {"train": steps})["train"].whole
    begun_meanwhile = loop(span(4, 6), span(6, 7), span(7, 8), span(8, 9), span(9, 14))
    assert not parts_of(at(5.5), at(9.5), {"train": begun_meanwhile}, 5 * SECOND)["train"].whole


def test_compiles_are_no_active_time() -> None:
    part = parts_of(at(0), at(2), {"train": loop(span(0, 2, compiling=1.5))})["train"]
    assert part.active_seconds == pytest.approx(0.5)


@given(
    st.lists(st.tuples(st.floats(0, 5), st.floats(0, 1), st.floats(0, 1)), max_size=8),
    st.floats(0, 20),
    st.floats(0, 20),
)
def test_parts_lie_in_the_window_in_order_and_apart(
    turns: list[tuple[float, float, float]], start: float, length: float
) -> None:
    steps, moment = [], 0.0
    for duration, wait, pause in turns:
        steps.append(span(moment, moment + duration, wait=wait * duration))
        moment += duration + pause
    begin, end = at(start), at(start + length)
    for part in parts_of(begin, end, {"train": loop(*steps)}).values():
        flat = [bound for piece in part.spans for bound in piece]
        assert flat == sorted(flat)
        assert begin <= flat[0]
        assert flat[-1] <= end
        assert 0 < part.steps <= len(steps) + 1e-9
        waited, whole = (sum(stop - first for first, stop in spans) for spans in (part.inputs, part.spans))
        assert waited <= whole
