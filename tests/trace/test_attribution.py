"""Each moment of a device's time is charged once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.model.trace import Kind
from jaxobs.trace.attribution import attribute

KINDS: tuple[Kind, ...] = (
    "compute",
    "compute",
    "collective",
    "transfer",
    "copy",
    "control",
    "control",
    "command_buffer",
)
RANK = {"compute": 0, "command_buffer": 0, "control": 0, "collective": 1, "transfer": 2, "copy": 3}

INTERVALS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 15), st.integers(0, len(KINDS) - 1)).map(
        lambda drawn: (drawn[0], drawn[0] + drawn[1], drawn[2])
    ),
    max_size=14,
)


def moment_by_moment(intervals):
    """The same by walking through every unit of time."""
    charged, together, exposed = [0.0] * len(KINDS), [0] * 4, [0.0] * 4
    for moment in range(60):
        running = [interval for interval in intervals if interval[0] <= moment < interval[1]]
        leaves = [interval for interval in running if KINDS[interval[2]] != "control"]
        ranks = {RANK[KINDS[operation]] for *_, operation in leaves}
        for rank in ranks:
            together[rank] += 1
        if leaves:
            lowest = min(ranks)
            exposed[lowest] += 1
            chosen = [operation for *_, operation in leaves if RANK[KINDS[operation]] == lowest]
            for operation in chosen:
                charged[operation] += 1 / len(chosen)
        elif running:
            exposed[0] += 1
            together[0] += 1
    return charged, together, exposed


@given(INTERVALS)
def test_it_charges_as_a_walk_through_every_moment_does(intervals):
    found = attribute(intervals, KINDS)
    charged, together, exposed = moment_by_moment(intervals)
    leaves = [at for at, kind in enumerate(KINDS) if kind != "control"]
    assert [found.charged[at] for at in leaves] == pytest.approx([charged[at] for at in leaves])
    assert found.together == pytest.approx(together)
    assert found.exposed == pytest.approx(exposed)


@given(INTERVALS)
def test_charges_add_up_to_the_busy_time(intervals):
    found = attribute(intervals, KINDS)
    busy = sum(any(start <= moment < end for start, end, _ in intervals) for moment in range(60))
    assert found.busy == pytest.approx(busy)
    assert sum(found.charged) == pytest.approx(busy)
    assert min(found.charged) >= -1e-9


@given(INTERVALS, st.integers(0, 2**62))
def test_the_time_of_day_changes_nothing(intervals, later):
    moved = [(start + later, end + later, operation) for start, end, operation in intervals]
    assert attribute(moved, KINDS).charged == pytest.approx(attribute(intervals, KINDS).charged)


def test_a_loop_keeps_what_its_body_leaves():
    found = attribute([(0, 100, 5), (10, 40, 0), (50, 90, 1)], KINDS)
    assert (found.charged[5], found.charged[0], found.charged[1]) == (30, 30, 40)


def test_of_two_loops_inside_each_other_the_inner_one_is_charged():
    found = attribute([(0, 100, 5), (20, 80, 6), (30, 70, 0)], KINDS)
    assert (found.charged[5], found.charged[6], found.charged[0]) == (40, 20, 40)


def test_communication_beside_a_computation_is_not_exposed():
    found = attribute([(0, 60, 2), (20, 100, 0)], KINDS)
    assert (found.charged[2], found.charged[0]) == (20, 80)
    assert (found.together[1], found.exposed[1]) == (60, 20)


def test_many_operations_at_once_take_no_quadratic_time():
    count = 20_000
    found = attribute([(at, at + 2 * count, 0) for at in range(count)], ["compute"])
    assert found.charged == pytest.approx([3 * count - 1])
