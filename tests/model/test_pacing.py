"""Long work calls `between` every few things, and is otherwise what it would be without."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from jaxobs.model.pacing import SORTED_AT_ONCE, STRETCH, empty, paced, paced_sorted, used_up

NUMBERS = st.lists(st.integers(), max_size=5 * STRETCH)


def longest_stretch(things: Iterable[Any], calls: list[int]) -> int:
    """The most things between two calls; `calls` grows with each."""
    longest = here = seen = 0
    for _ in things:
        here = 1 if len(calls) > seen else here + 1
        seen = len(calls)
        longest = max(longest, here)
    return longest


@given(NUMBERS)
def test_a_list_is_walked_in_order_with_few_things_between_two_calls(numbers: list[int]) -> None:
    calls: list[int] = []
    assert list(paced(numbers, lambda: None)) == numbers
    assert longest_stretch(paced(numbers, lambda: calls.append(1)), calls) <= STRETCH


@given(NUMBERS)
def test_a_list_is_used_up_from_its_end(numbers: list[int]) -> None:
    calls: list[int] = []
    kept = list(numbers)
    assert list(used_up(kept, lambda: None)) == numbers[::-1]
    assert kept == []
    assert longest_stretch(used_up(list(numbers), lambda: calls.append(1)), calls) <= STRETCH


@given(st.dictionaries(st.integers(), st.integers(), max_size=5 * STRETCH))
def test_a_mapping_is_emptied_a_few_things_at_a_time(known: dict[int, int]) -> None:
    sizes: list[int] = []
    empty(known, lambda: sizes.append(len(known)))
    assert known == {}
    sizes.append(0)
    assert all(before - after <= STRETCH for before, after in pairwise(sizes))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers()), max_size=20), st.integers(0, 300))
def test_many_things_are_sorted_as_few_are(few: list[tuple[int, int]], times: int) -> None:
    things = [(first, second + turn) for turn in range(times) for first, second in few]
    assert paced_sorted(things, lambda: None) == sorted(things)


def test_sorting_many_things_gives_way_on_the_way() -> None:
    calls: list[int] = []
    things = list(range(10 * SORTED_AT_ONCE, 0, -1))
    assert paced_sorted(things, lambda: calls.append(1)) == things[::-1]
    assert len(calls) >= 10 + len(things) // STRETCH
