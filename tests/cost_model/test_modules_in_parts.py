"""A module is read in small parts: to the same result, with the same errors, and nothing left behind."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxobs.cost_model import HloDecodeError, module_cost
from jaxobs.cost_model.descriptors import ComputationMessage, ModuleMessage
from jaxobs.cost_model.instructions import Computation, Instruction
from jaxobs.model import serialized_module
from jaxobs.model.serialized_module import PART_BYTES

FUNCTION_CALLS = 4_000
"""Of Python and of C. One takes 0.1 µs or so, so that this many take less than a millisecond."""


@pytest.fixture(scope="module")
def serialized(proto: Callable[..., bytes]) -> bytes:
    def layer(carry: Any, weight: Any) -> Any:
        return jnp.tanh(carry @ weight), jnp.sort(carry)

    return proto(lambda x, ws: jax.lax.scan(layer, x, ws), jnp.ones((4, 8)), jnp.ones((3, 8, 8)))


@pytest.fixture(scope="module")
def large(serialized: bytes) -> bytes:
    """With a computation of thousands of instructions, in a chain, and as many computations."""
    message = ModuleMessage.FromString(serialized)
    (entry,) = [part for part in message.computations if part.id == message.entry_computation_id]
    (root,) = [instruction for instruction in entry.instructions if instruction.id == entry.root_id]
    called = next(part for part in message.computations if part.id != entry.id)
    last = entry.instructions[0]
    for number in range(8_000):
        added = entry.instructions.add(
            name=b"added.%d" % number,
            opcode=b"negate",
            shape=last.shape,
            id=10**6 + number,
            operand_ids=[last.id],
        )
        if number % 2:
            copied = message.computations.add()
            copied.CopyFrom(called)
            copied.id = 10**6 + number
            added.opcode = b"call"
            added.called_computation_ids.append(copied.id)
        last = added
    entry.instructions.add().CopyFrom(root)
    entry.instructions[-1].id = entry.root_id = 10**7
    found: bytes = message.SerializeToString()
    return found


def parse(serialized: bytes) -> tuple[Any, list[Any]]:
    return serialized_module.parse(memoryview(serialized), ModuleMessage, ComputationMessage, lambda: None)


def put_together(serialized: bytes) -> Any:
    """What `parse` finds, as one message."""
    own, computations = parse(serialized)
    whole = ModuleMessage()
    whole.CopyFrom(own)
    del whole.computations[:]
    for computation in computations:
        added = whole.computations.add()
        added.CopyFrom(computation.message)
        del added.instructions[:]
        for part in computation.parts:
            added.instructions.extend(part.instructions)
    return whole


def test_a_large_module_in_parts_is_the_whole_module(large: bytes) -> None:
    assert put_together(large) == ModuleMessage.FromString(large)


def test_no_part_is_large(large: bytes) -> None:
    _, computations = parse(large)
    sizes = [part.ByteSize() for computation in computations for part in computation.parts]
    assert sum(sizes) > 10 * PART_BYTES
    assert max(sizes) <= PART_BYTES


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_damaged_bytes_in_parts_are_what_they_are_as_a_whole(serialized: bytes, data: st.DataObject) -> None:
    damaged = bytearray(serialized)
    for _ in range(data.draw(st.integers(0, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    del damaged[data.draw(st.one_of(st.none(), st.integers(0, len(damaged)))) :]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(serialized_module, "PART_BYTES", data.draw(st.sampled_from([0, 50, 400, PART_BYTES])))
        try:
            whole = ModuleMessage.FromString(bytes(damaged))
        except DecodeError:
            with pytest.raises(DecodeError):
                put_together(bytes(damaged))
        else:
            found = put_together(bytes(damaged))
            assert found.SerializeToString(deterministic=True) == whole.SerializeToString(deterministic=True)


def test_between_is_called_every_few_function_calls_from_beginning_to_end(large: bytes) -> None:
    module_cost(large)  # whatever is made once, at first use, is there
    stretches = [0]

    def counted(frame: Any, event: str, arg: Any) -> None:
        stretches[-1] += event in ("call", "c_call")

    def between() -> None:
        stretches.append(0)

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        module_cost(large, between=between)
    finally:
        sys.setprofile(before)
    assert sum(stretches) > 100 * FUNCTION_CALLS
    assert max(stretches) < FUNCTION_CALLS


def test_between_changes_nothing_and_may_end_the_work(large: bytes) -> None:
    assert module_cost(large, between=lambda: None) == module_cost(large)

    def enough() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        module_cost(large, between=enough)


def test_nothing_of_a_module_is_left_to_the_garbage_collector(large: bytes) -> None:
    broken = ModuleMessage.FromString(large)
    broken.computations[0].instructions[-1].operand_ids.append(-5)
    gc.collect()
    gc.disable()
    try:
        found = module_cost(large)
        with pytest.raises(HloDecodeError, match="not before it"):
            module_cost(broken.SerializeToString())
        left = [thing for thing in gc.get_objects() if isinstance(thing, Instruction | Computation)]
    finally:
        gc.enable()
    assert found.instruction_count > 8_000
    assert left == []
