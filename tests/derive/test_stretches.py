"""A loop's time by completed steps: what a stretch is, and which clock tells of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.derive.loops.host_lines import HostLines
from jaxobs.derive.loops.stretches import Kind, Stretch, Stretches
from jaxobs.derive.steps import Steps
from jaxobs.model.events import Event, StepCompleted, TurnsAsked
from tests.derive.made_up import MILLISECOND, SECOND, applied, at, new_fold, step


def dispatched(count: int, start: float, turn: float, first: int = 0) -> list[Steps]:
    """Steps of a watched function, each `turn` seconds of the host's."""
    return [
        Steps.of(step(first + n, start + n * turn, start + (n + 1) * turn, runs=(1,))) for n in range(count)
    ]


def told(stretches: Stretches, now: float) -> list[Stretch]:
    return stretches.take(at(now), HostLines(), wait=False, final=False)


def done(number: int, time: float) -> StepCompleted:
    return StepCompleted("train", number, at(time), MILLISECOND)


def test_what_lies_between_two_completions_is_a_stretch() -> None:
    stretches = Stretches(lambda ended: None)
    for steps in dispatched(20, 0.0, 0.001):
        stretches.steps_ended(steps)
    stretches.completed(done(9, 1.0))
    stretches.completed(done(14, 1.5))
    first, second = told(stretches, 2.0)
    assert (first.steps, first.wall) == (10, pytest.approx(1.0))
    assert (second.steps, second.wall, second.runs[1]) == (5, pytest.approx(0.5), 5)
    assert stretches.pending_since == at(1.5)
    assert stretches.rated().kind is Kind.SEEN


def test_a_stretch_lasts_until_the_host_has_ended_its_last_step() -> None:
    """The device is done early in the turn, and the host goes on in it."""
    stretches = Stretches(lambda ended: None)
    stretches.completed(done(0, 0.2))
    stretches.steps_ended(Steps.of(step(0, 0.0, 1.0, runs=(1,))))
    (only,) = told(stretches, 2.0)
    assert only.wall == pytest.approx(1.0)


def test_the_wait_for_an_item_that_never_came_is_charged_once() -> None:
    """The completion of the last step comes after it; that the job is over is known later still."""
    stretches = Stretches(lambda ended: None)
    for steps in dispatched(10, 0.0, 0.1):
        stretches.steps_ended(steps)
    stretches.loop_ended(5 * SECOND, at(6.0))
    stretches.completed(done(9, 2.0))
    (last,) = told(stretches, 7.0)
    assert (last.wall, last.input) == (pytest.approx(6.0), 5.0)
    assert stretches.take(at(8.0), HostLines(), wait=False, final=True) == []


@pytest.mark.parametrize("last_seen", [9, 8])
@pytest.mark.parametrize("left_before", [False, True])
def test_of_that_wait_what_the_device_still_worked_in_is_told_already(
    last_seen: int, left_before: bool
) -> None:
    """The host waits from 1 s to 6 s, and the device works until 4 s; its last completion may not be seen."""
    stretches = Stretches(lambda ended: None)
    for steps in dispatched(10, 0.0, 0.1):
        stretches.steps_ended(steps)
    if left_before:
        stretches.loop_ended(5 * SECOND, at(6.0))
    stretches.completed(done(last_seen, 4.0))
    if not left_before:
        stretches.loop_ended(5 * SECOND, at(6.0))
    ended = stretches.take(at(8.0), HostLines(), wait=False, final=True)
    assert sum(each.wall for each in ended) == pytest.approx(6.0)


@pytest.mark.parametrize(
    ("asked", "waits"),
    [(None, False), ((2, 2), False), ((3, 3), True), ((9, 9), True), ((9, 8), False), ((20, 19), True)],
)
def test_the_hosts_turns_are_the_clock_where_it_waits_in_each_step(
    asked: tuple[int, int] | None, waits: bool
) -> None:
    """Completions are met most in the long turns, that wait: they tell nothing of it."""
    stretches = Stretches(lambda ended: None)
    if asked:
        stretches.asked(TurnsAsked("train", *asked, at(0)))
    for number in range(5):
        end = 0.1 * (number + 1)
        stretches.completed(done(number, end - 0.01))
        stretches.steps_ended(Steps.of(step(number, end - 0.1, end, runs=(1,))))
    assert stretches.host_waits is waits
    stretches.steps_ended(Steps.of(step(5, 0.5, 0.6, runs=(1,))))
    assert (told(stretches, 0.6)[-1].kind is Kind.TURNS) is waits


def test_steps_of_a_loop_that_is_over_count_once_it_is_known_that_the_host_waited() -> None:
    stretches = Stretches(lambda ended: None)
    for steps in dispatched(6, 0.0, 0.1):
        stretches.steps_ended(steps)
    stretches.asked(TurnsAsked("train", 3, 3, at(0.6)))
    assert sum(stretch.wall for stretch in told(stretches, 1.0)) == pytest.approx(0.6)


def test_without_a_completion_steps_wait_for_ten_seconds_and_are_in_doubt_then() -> None:
    stretches = Stretches(lambda ended: None)
    for steps in dispatched(5, 0.0, 0.1):
        stretches.steps_ended(steps)
    assert told(stretches, 9.9) == []
    assert stretches.pending_since == at(0.0)
    assert stretches.take(at(30.0), HostLines(), wait=True, final=False) == []  # a run is known to last
    (*_, last) = told(stretches, 10.1)
    assert last.kind is Kind.UNSEEN
    assert stretches.pending_since is None
    assert stretches.rated().steps == 0


@pytest.mark.parametrize(("others", "rate"), [(399, 1000.0), (99, None)])
def test_the_end_of_a_step_that_compiled_tells_nothing_of_others_whose_ends_were_not_seen(
    others: int, rate: float | None
) -> None:
    stretches = Stretches(lambda ended: None)
    (first,) = dispatched(1, 0.0, 1.0)
    first.compiling = SECOND - 5 * MILLISECOND
    stretches.steps_ended(first)
    stretches.completed(done(0, 1.0))
    for steps in dispatched(others, 1.0, 0.001, first=1):
        stretches.steps_ended(steps)
    stretches.take(at(2.0), HostLines(), wait=False, final=True)
    rated = stretches.rated()
    assert rated.kind is Kind.UNSEEN
    assert (rated.steps / rated.wall if rated.steps else None) == pytest.approx(rate)


def test_what_the_device_was_behind_is_no_time_of_later_steps() -> None:
    """Steps were counted by the host's turns, and then a completion came after all."""
    stretches = Stretches(lambda ended: None)
    for steps in dispatched(5, 0.0, 0.1):
        stretches.steps_ended(steps)
    told(stretches, 10.1)
    stretches.completed(done(4, 20.0))
    for steps in dispatched(5, 0.5, 0.1, first=5):
        stretches.steps_ended(steps)
    stretches.completed(done(9, 22.0))
    (only,) = told(stretches, 22.0)
    assert (only.steps, only.wall) == (5, pytest.approx(2.0))


def test_after_another_loops_steps_the_first_stretch_is_in_doubt() -> None:
    before, stretches = Stretches(lambda ended: None), Stretches(lambda ended: None)
    before.steps_ended(*dispatched(1, 0.0, 0.001))
    before.followed_by(stretches, dispatched(1, 0.001, 0.001)[0])
    for steps in dispatched(20, 0.001, 0.001):
        stretches.steps_ended(steps)
    for number in (9, 19):
        stretches.completed(done(number, 0.1 * number))
    first, second = told(stretches, 2.0)
    assert (first.kind, second.kind) == (Kind.DOUBTFUL, Kind.SEEN)


def test_a_completion_tells_that_what_was_dispatched_before_it_is_done() -> None:
    """The end of the other loop's last step is not seen."""
    before, stretches = Stretches(lambda ended: None), Stretches(lambda ended: None)
    stretches.asked(TurnsAsked("train", 9, 9, at(0)))
    before.steps_ended(*dispatched(1, 0.0, 0.1))
    turns = dispatched(4, 0.1, 0.1)
    before.followed_by(stretches, turns[0])
    for steps in turns[:2]:
        stretches.steps_ended(steps)
    stretches.completed(done(1, 0.3))
    for steps in turns[2:]:
        stretches.steps_ended(steps)
    kinds = [each.kind for each in told(stretches, 1.0)]
    assert kinds == [Kind.DOUBTFUL, Kind.DOUBTFUL, Kind.TURNS, Kind.TURNS]


def test_loops_that_take_turns_keep_no_note_of_each_change() -> None:
    one, other = Stretches(lambda ended: None), Stretches(lambda ended: None)
    for number in range(100):
        for before, after in ((one, other), (other, one)):
            before.steps_ended(Steps.of(step(number, number, number + 0.5)))
            before.followed_by(after, Steps.of(step(number, number + 0.5, number + 1.0)))
    assert len(one._followers) + len(other._followers) <= 2


turns = st.lists(
    st.tuples(st.floats(0, 0.2), st.floats(0, 0.5), st.booleans(), st.integers(0, 3)), min_size=1, max_size=30
)


@given(turns, st.booleans())
def test_no_step_is_lost_and_no_second_counted_twice(
    seen: list[tuple[float, float, bool, int]], waits: bool
) -> None:
    """Turns after pauses, some of which are followed by the completion of a step a few before them."""
    stretches, now, found = Stretches(lambda ended: None), 1.0, list[Stretch]()
    if waits:
        stretches.asked(TurnsAsked("train", 9, 9, at(1)))
    for number, (pause, turn, completes, behind) in enumerate(seen):
        now += pause
        stretches.steps_ended(Steps.of(step(number, now, now + turn, runs=(1,))))
        now += turn
        if completes:
            stretches.completed(done(max(0, number - behind), now))
        found += stretches.take(at(now), HostLines(), wait=False, final=False)
    found += stretches.take(at(now), HostLines(), wait=False, final=True)
    assert sum(each.steps for each in found) == len(seen)
    assert sum(each.runs[1] for each in found) == len(seen)
    assert sum(each.wall for each in found) <= now - 1.0 + 1e-6


epochs = st.lists(
    st.tuples(st.integers(1, 40), st.integers(1, 8), st.floats(0.001, 0.05), st.integers(1, 12)),
    min_size=1,
    max_size=8,
)


@given(epochs, st.booleans())
def test_the_queue_of_one_loop_is_no_time_of_another_that_waits_behind_it(
    passes: list[tuple[int, int, float, int]], evaluation_waits: bool
) -> None:
    """A training whose host runs ahead, and evaluations between: the device does all in order, and ends are seen."""
    fold, now, free, seen = new_fold(), 1.0, 1.0, list[tuple[float, Event]]()
    numbers = {"train": 0, "eval": 0}
    for trained, evaluated, each, polled in passes:
        for loop, count, waits in (("train", trained, False), ("eval", evaluated, evaluation_waits)):
            for last in reversed(range(count)):
                begin, free = now, max(free, now) + each
                now = max(now + 0.0001, free if waits or (loop == "eval" and not last) else 0.0)
                number = numbers[loop]
                numbers[loop] += 1
                seen.append((now, step(number, begin, now, runs=(1,), loop=loop)))
                if number % polled == 0 or not last:
                    seen.append((free, StepCompleted(loop, number, at(free), MILLISECOND)))
    ordered = [event for _, event in sorted(seen, key=lambda one: one[0])]
    loops = applied(fold, ordered).snapshot(at(now + 1.0)).to_dict()["loops"]
    assert sum(loop["wall_seconds"] for loop in loops.values()) <= (now - 1.0) * 1.02 + 0.002


def test_a_few_steps_whose_end_was_seen_do_not_stand_for_many_others() -> None:
    """Of updates between rollouts one in ninety was seen to end, the longest: a quarter of the loop's rate was told."""
    stretches = Stretches(lambda ended: None)
    for number, steps in enumerate(dispatched(200, 0.0, 0.03)):
        stretches.steps_ended(steps)
        if number == 2:
            stretches.completed(done(0, 0.12))
        told(stretches, 0.1 * number)
    assert stretches.whole().steps == 200
    assert stretches.rated() == Stretch(Kind.UNSEEN)


@pytest.mark.parametrize("ready", [0, 1])
def test_a_host_that_waits_now_and_then_is_not_ahead_throughout(ready: int) -> None:
    """It worked after each fifth result, the device idle meanwhile, and that was taken for the time of its runs."""
    ended: list[Stretch] = []
    stretches = Stretches(ended.append)
    stretches.asked(TurnsAsked("train", 5, ready, at(0.0), 0))
    for steps in dispatched(20, 0.0, 0.001):
        stretches.steps_ended(steps)
    for number, time in ((4, 0.5), (9, 1.0), (14, 1.5)):
        stretches.completed(done(number, time))
    assert [each.ahead for each in ended] == [False, not ready, not ready]


@pytest.mark.parametrize("pause", [0.001, 2.0])
def test_a_host_that_stops_for_longer_than_what_it_has_queued_is_not_ahead(pause: float) -> None:
    """It read a loss after each 400 steps and slept: asked turns seldom meet that, and runs took three times as long."""
    ended: list[Stretch] = []
    stretches = Stretches(ended.append)
    stretches.asked(TurnsAsked("train", 5, 0, at(0.0), 0))
    for first, count, length in ((0, 60, 0.001), (60, 1, pause), (61, 120, 0.001)):
        for steps in dispatched(count, 0.06 * (first > 0) + pause * (first > 60), length, first=first):
            stretches.steps_ended(steps)
    for number, time in ((9, 0.1), (49, 0.3), (69, pause + 0.4), (149, pause + 0.8)):
        stretches.completed(done(number, time))
    assert [each.ahead for each in ended] == [False, True, pause < 1.0, True]


def test_steps_whose_end_was_seen_do_not_stand_for_more_of_another_pace() -> None:
    """The output of a large step is replaced before it is ready, and is asked no more: a sixth had told all rates."""
    stretches = Stretches(lambda ended: None)
    for number, steps in enumerate([*dispatched(100, 0.0, 0.01), *dispatched(600, 1.0, 0.02, first=100)]):
        stretches.steps_ended(steps)
        if number == 99:
            stretches.completed(done(99, 1.0))
    stretches.take(at(13.0), HostLines(), wait=False, final=True)
    rated = stretches.rated()
    assert (rated.kind, rated.steps) == (Kind.UNSEEN, 700)
    assert rated.wall == pytest.approx(13.0)


@pytest.mark.parametrize("kind", [Kind.SEEN, Kind.TURNS])
def test_a_turn_that_another_loop_ended_tells_no_pace_unless_its_end_was_seen(kind: Kind) -> None:
    """Passes of ten steps of 0.1 s, after each of which the host is elsewhere for 5 s, before another loop."""
    stretches = Stretches(lambda ended: None)
    if kind is Kind.TURNS:
        stretches.asked(TurnsAsked("train", 10, 10, at(0.0), 1))
    for number in range(0, 40, 10):
        start = 0.6 * number
        stretches.open_ended.append(number + 9)
        for steps in dispatched(9, start, 0.1, number):
            stretches.steps_ended(steps)
        stretches.steps_ended(Steps.of(step(number + 9, start + 0.9, start + 6.0, runs=(1,))))
        if kind is Kind.SEEN:
            stretches.completed(done(number + 4, start + 0.5))
            stretches.completed(done(number + 8 + number % 20 // 10, start + 0.9 + number % 20 / 100))
    told(stretches, 24.0)
    rated = stretches.rated()
    assert rated.kind is kind
    assert rated.wall / rated.steps == pytest.approx(0.1)
    assert stretches.whole().doubtful == 0.0  # as it is not known to be the loop's time


def test_a_completion_that_is_hardly_known_ends_no_stretch_but_the_last() -> None:
    stretches = Stretches(lambda ended: None)
    for steps in dispatched(20, 0.0, 0.001):
        stretches.steps_ended(steps)
    for number, off in ((4, 0.001), (9, 0.2), (14, 0.001), (19, 0.2)):
        stretches.completed(done(number, number / 10 + off)._replace(uncertainty=round(off * SECOND)))
    ended = [(each.steps, each.wall, each.kind) for each in told(stretches, 3.0)]
    assert ended == [
        (5, pytest.approx(0.4, abs=0.01), Kind.SEEN),
        (10, pytest.approx(1.0, abs=0.01), Kind.SEEN),
        (5, pytest.approx(0.7, abs=0.01), Kind.DOUBTFUL),
    ]
