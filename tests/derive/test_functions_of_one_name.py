"""Functions of one name are told apart by where their source is, so that a turn that calls each is one step."""

from __future__ import annotations

import pytest

from jaxobs.derive.fold import Fold
from jaxobs.model.events import UNMARKED, FunctionWatched
from tests.derive.made_up import applied, at, backend, created, new_fold


def fold_of(runs: list[int], definitions: list[str]) -> Fold:
    """Calls a tenth of a second apart; the executables 1, 2, … are of functions `update` with these definitions."""
    made = [
        created(number, "update")._replace(definition=definition)
        for number, definition in enumerate(definitions, 1)
    ]
    watched = [FunctionWatched(-number, "update", "", at(0)) for number, _ in enumerate(definitions, 1)]
    fold = applied(new_fold(), [backend(), *watched, *made])
    rows: list[object] = []
    for number, run in enumerate(runs, 1):
        begin, end = at(1 + number / 10), at(1.01 + number / 10)
        rows += (UNMARKED, number, begin, end, 0, 0, end - begin, None, None, 1, run)
    fold.apply_steps(rows)
    return fold


def steps_of(fold: Fold) -> dict[str, int]:
    return {name: loop["steps"] for name, loop in fold.snapshot(at(9)).to_dict()["loops"].items()}


def test_two_trainers_whose_functions_have_one_name_make_one_step_of_both() -> None:
    fold = fold_of([1, 2] * 20, ["gan.py:8", "gan.py:20"])
    assert steps_of(fold) == {"update": 19}


def test_the_second_function_of_a_name_is_a_loop_named_with_its_place() -> None:
    fold = fold_of(([1] * 20 + [2] * 20) * 2, ["gan.py:8", "gan.py:20"])
    assert set(steps_of(fold)) == {"update", "update at gan.py:20"}


@pytest.mark.parametrize("definition", ["gan.py:8", ""])
def test_a_function_that_is_made_anew_stays_the_same_loop(definition: str) -> None:
    """As one that is jitted for each length of its input, or in each epoch."""
    fold = fold_of([1, 2] * 20, [definition, definition])
    assert steps_of(fold) == {"update": 39}
