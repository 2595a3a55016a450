"""What is remembered of compiles is bounded, and lets go of what the user lets go of."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

from jaxobs.jax_compat.compiling import JitCall
from jaxobs_plugins.probes.compile import causes as history
from jaxobs_plugins.probes.compile.causes import Causes, History, Traced
from jaxobs_plugins.probes.compile.miss_cause import Leaf, Signature, Value
from jaxobs_plugins.probes.compile.signature import signature_of


def signature(number: int, arrays: int = 1, function: int = 1) -> Signature:
    names = tuple(f"params['layer_{index}']" for index in range(arrays))
    leaves = tuple(Leaf((number, index), "float32", False) for index in range(arrays))
    options = (("inline", Value("False")),)
    bindings = (("params", Value("positional")),)
    return Signature(Value("f", function), options, (), bindings, (), (), names, leaves, ())


def test_a_function_that_was_never_compiled_has_no_cause() -> None:
    kept = History()
    assert kept.compiled(Traced(("f",), signature(1))) is None
    explained = kept.compiled(Traced(("f",), signature(2)))
    assert explained is not None
    assert (explained.cause, explained.argument) == ("shape", "params['layer_0']")
    assert kept.compiled(Traced(("g",), signature(2))) is None


def call_of(function: Any) -> JitCall:
    """A call of the function without arguments."""
    return JitCall(function, (), None, 0, (), [], (), (), [], (), None)


def test_a_function_object_is_known_again_by_its_identity_alone() -> None:
    class Callable:
        __hash__ = None  # type: ignore[assignment]  # as Python has it for what cannot be hashed

        def __eq__(self, other: object) -> bool:
            raise AssertionError("compared")

    one, other = Callable(), Callable()
    first = signature_of(call_of(one))
    assert signature_of(call_of(other)).function != first.function
    assert signature_of(call_of(one)).function == first.function
    del one
    gc.collect()
    later = [Callable() for _ in range(100)]
    assert first.function not in [signature_of(call_of(each)).function for each in later]


def test_an_object_is_compared_with_what_it_was_compiled_for_itself() -> None:
    kept = History()
    for number in range(20):
        kept.compiled(Traced(("f",), signature(number=1, function=number)))
        explained = kept.compiled(Traced(("f",), signature(number=2, function=number)))
        assert explained is not None
        assert explained.cause == "shape"
    explained = kept.compiled(Traced(("f",), signature(number=2, function=20)))
    assert explained is not None
    assert (explained.cause, explained.differences) == ("redefined", 1)


def test_thousands_of_functions_and_large_trees_take_bounded_room() -> None:
    kept = History()
    tracemalloc.start()
    for number in range(3_000):
        kept.compiled(Traced((number,), signature(number, 3)))
    small = tracemalloc.get_traced_memory()[0]
    for number in range(20):
        kept.compiled(Traced(("large", number % 3), signature(number, 4_000)))
    large = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(kept._functions) <= history.FUNCTIONS_KEPT
    arrays = sum(len(each.names) for function in kept._functions.values() for each in function)
    assert kept._arrays == arrays <= history.ARRAYS_KEPT
    assert small < 6e6
    assert large < 20e6  # each leaf of this test is one of its own; those of a model are some few


def test_one_function_with_very_many_arrays_is_still_compared() -> None:
    kept = History()
    for number in range(4):
        explained = kept.compiled(Traced(("f",), signature(number, 20_000)))
    assert explained is not None
    assert explained.cause == "shape"
    assert kept._arrays <= history.ARRAYS_KEPT


def test_the_names_of_very_many_functions_take_bounded_room() -> None:
    causes = Causes()
    for number in range(3_000):  # such as are made anew for each shape, with the shape in the name
        assert causes.explained(f"step_{number}").cause is None
    assert causes.explained("step_2999").cause == "other"
    assert len(causes._unseen) <= history.FUNCTIONS_KEPT
