"""What is remembered of compiles is bounded, and lets go of what the user lets go of."""

from __future__ import annotations

import gc
import tracemalloc
from typing import TYPE_CHECKING, Any

from jaxobs_plugins.probes.compile import causes as history
from jaxobs_plugins.probes.compile.causes import History, Traced
from jaxobs_plugins.probes.compile.miss_cause import Leaf, Signature, Value

if TYPE_CHECKING:
    import pytest


class Jaxpr:
    """Something that can be referred to weakly."""


def signature(number: int, arrays: int = 1, function: int = 1) -> Signature:
    names = tuple(f"params['layer_{index}']" for index in range(arrays))
    leaves = tuple(Leaf((number, index), "float32", False) for index in range(arrays))
    options = (("inline", Value("False")),)
    bindings = (("params", Value("positional")),)
    return Signature(function, "f", options, (), bindings, (), (), names, leaves, ())


def test_a_function_that_was_never_compiled_has_no_cause() -> None:
    kept = History()
    assert kept.compiled(Traced(("f",), signature(1))) is None
    explained = kept.compiled(Traced(("f",), signature(2)))
    assert explained is not None
    assert (explained.cause, explained.argument) == ("shape", "params['layer_0']")
    assert kept.compiled(Traced(("g",), signature(2))) is None


def test_a_function_object_is_known_again_by_its_identity_alone() -> None:
    class Callable:
        __hash__ = None  # type: ignore[assignment]  # as Python has it for what cannot be hashed

        def __eq__(self, other: object) -> bool:
            raise AssertionError("compared")

    class Slotted:
        __slots__ = ()

    kept = History()
    one, other, slotted = Callable(), Callable(), Slotted()
    first = kept.number_of(("f",), one)
    assert kept.number_of(("f",), other) != first
    assert kept.number_of(("f",), one) == first
    assert kept.number_of(("f",), slotted) == kept.number_of(("f",), slotted)
    del one
    gc.collect()
    assert kept.number_of(("f",), Callable()) != first


def test_a_trace_is_known_again_by_what_it_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "TRACES_KEPT", 3)
    kept = History()
    made = [Jaxpr() for _ in range(5)]
    for number, jaxpr in enumerate(made):
        kept.lowered(jaxpr, Traced(("f",), signature(number)))
    assert kept.lowered(made[0], None) is None
    found = kept.lowered(made[4], None)
    assert found is not None
    assert found.signature == signature(4)
    assert kept.lowered(Jaxpr(), None) is None


def test_traces_that_jax_has_let_go_of_are_forgotten() -> None:
    kept, alive = History(), Jaxpr()
    dead = [Jaxpr() for _ in range(100)]
    for number, jaxpr in enumerate(dead):
        kept.lowered(jaxpr, Traced(("f",), signature(number)))
    dead.clear()
    del jaxpr
    kept.lowered(alive, Traced(("f",), signature(100)))
    assert (len(kept._traces), kept._traced_arrays) == (1, 1)


def test_thousands_of_functions_and_large_trees_take_bounded_room() -> None:
    kept, jaxprs = History(), [Jaxpr() for _ in range(64)]
    tracemalloc.start()
    for number in range(3_000):
        traced = Traced((number,), signature(number, 3))
        kept.lowered(jaxprs[number % 64], traced)
        kept.compiled(traced)
    small = tracemalloc.get_traced_memory()[0]
    for number in range(20):
        traced = Traced(("large", number % 3), signature(number, 4_000))
        kept.lowered(jaxprs[number % 64], traced)
        kept.compiled(traced)
    large = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(kept._functions) <= history.FUNCTIONS_KEPT
    assert (
        kept._arrays == sum(function.arrays for function in kept._functions.values()) <= history.ARRAYS_KEPT
    )
    assert kept._traced_arrays <= history.ARRAYS_KEPT
    assert small < 6e6
    assert large < 20e6  # each leaf of this test is one of its own; those of a model are some few


def test_one_function_with_very_many_arrays_is_still_compared() -> None:
    kept = History()
    for number in range(4):
        explained = kept.compiled(Traced(("f",), signature(number, 20_000)))
    assert explained is not None
    assert explained.cause == "shape"
    assert kept._arrays <= history.ARRAYS_KEPT


def test_parts_that_did_not_change_are_kept_once() -> None:
    kept = History()
    for number in range(3):
        kept.compiled(Traced(("f",), signature(number, 5)))
    (function,) = kept._functions.values()
    parts: Any = function.signatures
    assert parts[0].names is parts[1].names is parts[2].names
