"""Whether the device works on for a loop that was left: what is needed to say so."""

from __future__ import annotations

import pytest

from jaxobs.derive.loops.timing.left_loop import may_hide, works_on

MANY, BURST, FIRST_CALL = 9, 3, 1


@pytest.mark.parametrize(
    ("left", "timed", "wall", "told"),
    [
        (0.3, MANY, 0.01, True),
        (0.0, MANY, 0.3, False),
        (0.02, MANY, 0.3, False),  # as much as samples are off by
        (0.1, MANY, 0.3, True),
        (0.3, BURST, 0.01, True),
        (0.1, BURST, 0.3, None),  # a burst alone is off by more
        (0.02, BURST, 0.3, False),
        (0.3, FIRST_CALL, 0.01, None),
        (0.3, 0, 0.01, None),
    ],
)
def test_it_takes_several_timed_runs(left: float, timed: int, wall: float, told: bool | None) -> None:
    assert works_on({1: left} if left else {}, {}, {1: timed}, 20, wall) is told


@pytest.mark.parametrize(
    ("calls", "timed", "told"),
    [
        (1, BURST, True),  # an epoch's last batch, of another shape
        (20, BURST, None),  # in each step, and may take long
        (20, MANY, True),  # polls meet the other one alone
    ],
)
def test_what_was_never_timed_counts_where_it_may_take_long(
    calls: int, timed: int, told: bool | None
) -> None:
    assert works_on({1: 0.3}, {2: calls}, {1: timed, 2: 0}, 20, 0.01) is told


def test_nothing_is_left_of_a_loop_that_ran_nothing() -> None:
    assert works_on({}, {}, {}, 20, 0.3) is False


@pytest.mark.parametrize(
    ("steps", "wall", "elapsed", "told"),
    [(20, 0.01, 0.2, True), (20, 1.0, 0.05, False), (1_000, 1.0, 10.0, False)],
)
def test_much_is_hidden_by_few_steps_and_a_long_absence(
    steps: int, wall: float, elapsed: float, told: bool
) -> None:
    assert may_hide(steps, wall, elapsed) is told
