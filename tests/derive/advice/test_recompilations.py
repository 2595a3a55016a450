"""Advice on recompilations: which argument, which cause, and how many together."""

from __future__ import annotations

import pytest

from jaxobs.derive.advice.of_compiles import REMEDIES
from tests.derive.advice import documents
from tests.derive.advice.found import after, only


def test_the_argument_of_a_recompilation_and_its_change_are_named() -> None:
    piece = only(documents.recompiling())
    assert "`batch['tokens']` changed (int32[32,512] → int32[7,512])" in piece["sentence"]
    assert "`batch['tokens']`" in piece["remedy"]
    assert piece["function"] == "train_step"


@pytest.mark.parametrize("cause", REMEDIES)
def test_each_known_cause_has_its_remedy_also_without_an_argument(cause: str) -> None:
    document = documents.recompiling(cause=cause)
    (row,) = document["functions"]["train_step"]["recompilations"]
    row |= dict.fromkeys(("argument", "old", "new", "call_site"))
    piece = only(document)
    assert "None" not in piece["sentence"]
    assert "None " not in piece["remedy"] or cause == "pytree"


def test_recompilations_by_one_argument_count_together_whatever_it_changed_to() -> None:
    document = documents.recompiling(count=1, seconds=20.0)
    rows = document["functions"]["train_step"]["recompilations"]
    document["functions"]["train_step"]["recompilations"] = [rows[0], rows[0] | {"new": "int32[9,512]"}]
    assert only(document)["saves_ratio"] == pytest.approx(0.04)


def test_several_causes_of_one_function_are_one_piece_that_names_each() -> None:
    document = documents.recompiling(count=40, seconds=20.0)
    rows = document["functions"]["train_step"]["recompilations"]
    again = rows[0] | {"cause": "redefined", "argument": None, "old": None, "new": None}
    rows += [
        again | {"count": 5, "seconds": 25.0},
        rows[0] | {"cause": "dtype", "argument": "mask", "count": 1, "seconds": 0.9},  # a small single one
    ]
    piece = only(document)
    assert piece["saves_ratio"] == pytest.approx(0.045)  # neither alone is enough
    assert piece["sentence"] == (
        "`train_step` was compiled again 45 times, 45 s in all: 5 times (25 s) because it was defined anew, 40 times "
        "(20 s) because the shape of `batch['tokens']` changed (int32[32,512] → int32[7,512])."
    )
    assert "define and jit the function once" in piece["remedy"].lower()
    assert "pad `batch['tokens']`" in piece["remedy"]


def test_of_many_causes_those_of_the_most_seconds_are_named() -> None:
    document = documents.recompiling()
    (row,) = document["functions"]["train_step"]["recompilations"]
    document["functions"]["train_step"]["recompilations"] = [
        row | {"argument": f"argument{number}", "seconds": 10.0 + number} for number in range(5)
    ]
    piece = only(document)
    assert [f"`argument{number}`" in piece["sentence"] for number in range(5)] == [
        False,
        False,
        True,
        True,
        True,
    ]
    assert "2 more such reasons" in piece["sentence"]
    assert piece["saves_ratio"] == pytest.approx(0.06)


def test_one_cause_by_several_arguments_counts_together() -> None:
    document = after(10.0, documents.recompiling(count=1, seconds=0.2, cause="weak_type"))
    rows = document["functions"]["train_step"]["recompilations"]
    rows.append(rows[0] | {"argument": "scale"})
    assert "`batch['tokens']`" in only(document)["sentence"]
    assert "`scale`" in only(document)["sentence"]


def test_shapes_that_grow_on_purpose_are_not_told_to_be_padded() -> None:
    document = documents.recompiling(count=4)
    (row,) = document["functions"]["train_step"]["recompilations"]
    row["grows"] = True
    assert documents.advise(document) == []
