"""Explaining a recompile from signatures: the one thing that changed is named, whatever else was compiled before."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from jaxobs.vocabulary.words import CAUSES
from jaxobs_plugins.probes.compile.miss_cause import (
    ABSENT,
    UNEXPLAINED,
    Leaf,
    Signature,
    Value,
    differences,
    explain,
)

FIRST = Signature(
    function=Value("step at train.py:10", 1),
    options=(("donate_argnums", Value("()")), ("inline", Value("False"))),
    context=(("jax_enable_x64", Value("False")), ("mesh", Value("none"))),
    bindings=(("params", Value("positional")), ("x", Value("positional"))),
    statics=(("mode", Value("'train'")), ("config", Value("Config", 77))),
    structure=(("params", Value("dict('b', 'w')")), ("params['w']", Value("tuple of 2"))),
    names=("params['b']", "params['w'][0]", "params['w'][1]", "x"),
    leaves=(Leaf((3,), "float32", False),) * 3 + (Leaf((8, 16), "float32", False),),
    shardings=("cpu:0",) * 4,
)


def replaced(values: tuple[Any, ...], index: int, new: Any) -> tuple[Any, ...]:
    return (*values[:index], new, *values[index + 1 :])


ONE_CHANGE = [
    ("redefined", None, FIRST._replace(function=Value("step at train.py:10", 2))),
    ("redefined", "donate_argnums", FIRST._replace(options=(("donate_argnums", Value("(0,)")), FIRST.options[1]))),
    ("static_argument", "mode", FIRST._replace(statics=(("mode", Value("'eval'")), FIRST.statics[1]))),
    ("static_argument", "config", FIRST._replace(statics=(FIRST.statics[0], ("config", Value("Config", 78))))),
    ("static_argument", "mode", FIRST._replace(statics=FIRST.statics[1:])),
    ("pytree", "x", FIRST._replace(bindings=(FIRST.bindings[0], ("x", Value("keyword"))))),
    ("pytree", "params['w']", FIRST._replace(structure=(FIRST.structure[0], ("params['w']", Value("list of 2"))))),
    ("context", "mesh", FIRST._replace(context=(FIRST.context[0], ("mesh", Value("(data=8)"))))),
    ("dtype", "x", FIRST._replace(leaves=replaced(FIRST.leaves, 3, Leaf((8, 16), "bfloat16", False)))),
    ("dtype", "x", FIRST._replace(leaves=replaced(FIRST.leaves, 3, Leaf((9, 16), "bfloat16", True)))),
    ("shape", "x", FIRST._replace(leaves=replaced(FIRST.leaves, 3, Leaf((9, 16), "float32", False)))),
    ("shape", "params['w'][0]", FIRST._replace(leaves=replaced(FIRST.leaves, 1, Leaf((4,), "float32", False)))),
    ("weak_type", "x", FIRST._replace(leaves=replaced(FIRST.leaves, 3, Leaf((8, 16), "float32", True)))),
    ("sharding", "params['b']", FIRST._replace(shardings=replaced(FIRST.shardings, 0, "cpu:1"))),
]  # fmt: skip

changes = st.sampled_from(ONE_CHANGE)


@st.composite
def signatures(draw: st.DrawFn) -> Signature:
    """A signature made by several changes, each to a part of its own."""
    made = FIRST
    for _, _, changed in draw(st.lists(changes, max_size=4)):
        for field in Signature._fields:
            if getattr(changed, field) != getattr(FIRST, field):
                made = made._replace(**{field: getattr(changed, field)})
    return made


@pytest.mark.parametrize(("cause", "argument", "changed"), ONE_CHANGE)
def test_the_one_thing_that_changed_is_named(cause: str, argument: str | None, changed: Signature) -> None:
    for old, new in ((FIRST, changed), (changed, FIRST)):
        explained = explain(new, [old])
        assert (explained.cause, explained.argument, explained.differences) == (cause, argument, 1)
        assert cause in CAUSES


def test_old_and_new_are_told_as_they_are_written() -> None:
    longer = FIRST._replace(leaves=replaced(FIRST.leaves, 3, Leaf((9, 16), "bfloat16", True)))
    explained = explain(longer, [FIRST])
    assert (explained.old, explained.new) == ("float32[8,16]", "bfloat16[9,16] (weak type)")
    without = FIRST._replace(statics=FIRST.statics[1:])
    assert (explain(without, [FIRST]).old, explain(without, [FIRST]).new) == ("'train'", ABSENT)


def test_an_array_in_place_of_a_container_is_a_change_of_structure() -> None:
    none = FIRST._replace(
        structure=(*FIRST.structure, ("x", Value("None"))),
        names=FIRST.names[:3], leaves=FIRST.leaves[:3], shardings=FIRST.shardings[:3],
    )  # fmt: skip
    assert explain(none, [FIRST])[:4] == ("pytree", "x", "float32[8,16]", "None")
    assert explain(FIRST, [none])[:4] == ("pytree", "x", "None", "float32[8,16]")


def test_shardings_that_were_not_seen_are_not_compared() -> None:
    unseen = FIRST._replace(shardings=())
    assert explain(FIRST, [unseen]) == explain(unseen, [FIRST]) == UNEXPLAINED


def test_that_a_partial_is_another_object_is_named_only_where_what_it_binds_does_not_differ() -> None:
    another = FIRST._replace(function=Value("step at train.py:10", 2), partial=True)
    assert explain(another, [FIRST])[:2] == ("redefined", None)
    bound = another._replace(statics=ONE_CHANGE[2][2].statics)
    assert explain(bound, [FIRST])[:2] == ("static_argument", "mode")


def test_objects_that_may_be_equal_are_named_only_where_nothing_else_differs() -> None:
    another = FIRST._replace(statics=(FIRST.statics[0], ("config", Value("Config", 78))))
    assert explain(another, [FIRST]).argument == "config"
    both = another._replace(leaves=ONE_CHANGE[10][2].leaves)
    assert explain(both, [FIRST])[:2] == ("shape", "x")


@given(st.lists(signatures(), min_size=1, max_size=6))
def test_what_was_compiled_before_is_not_explained_by_anything(earlier: list[Signature]) -> None:
    assert explain(earlier[0], earlier) == UNEXPLAINED


@given(changes, st.lists(signatures(), max_size=6), st.randoms())
def test_the_nearest_earlier_signature_is_compared_with_wherever_it_is(
    change: tuple[str, str | None, Signature], others: list[Signature], random: Any
) -> None:
    cause, argument, changed = change
    for other in others:  # none of them is as near
        assume(sum(difference.certain for difference in differences(other, changed)) > 1)
    earlier = [*others, FIRST]
    random.shuffle(earlier)
    assert explain(changed, earlier)[:2] == (cause, argument)


def test_of_two_types_of_an_array_that_counts_which_has_more_in_common() -> None:
    """After `float32[4]` and `int32[4]` a Python number was told to be another element type, which it is not."""
    vector, integers, number = (
        FIRST._replace(leaves=replaced(FIRST.leaves, 3, leaf))
        for leaf in (Leaf((4,), "float32", False), Leaf((4,), "int32", False), Leaf((), "float32", True))
    )
    assert explain(number, [vector, integers])[:4] == ("shape", "x", "float32[4]", "float32[] (weak type)")
    assert explain(number, [integers, vector]) == explain(number, [vector, integers])


@given(signatures(), signatures())
def test_differences_are_as_many_in_either_direction(one: Signature, other: Signature) -> None:
    there, back = list(differences(one, other)), list(differences(other, one))
    assert len(there) == len(back)
    assert sum(found.certain for found in there) == sum(found.certain for found in back)
    assert {(found.cause, found.argument, found.old, found.new) for found in there} == {
        (found.cause, found.argument, found.new, found.old) for found in back
    }
    assert bool(there) == (one != other)


@given(signatures(), signatures())
def test_an_explanation_is_one_of_the_differences(one: Signature, other: Signature) -> None:
    explained = explain(other, [one])
    found = [(*found[:2], found.old.text, found.new.text) for found in differences(one, other)]
    assert tuple(explained[:4]) in found if found else explained == UNEXPLAINED
    assert explained.differences <= len(found)
