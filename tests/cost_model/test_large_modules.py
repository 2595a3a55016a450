"""Reading a large module leaves nothing behind."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from jaxobs.cost_model import HloDecodeError, module_cost
from jaxobs.cost_model.hlo.instructions import Computation, Instruction
from jaxobs.proto.messages import ModuleMessage


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


def test_nothing_of_a_module_is_left_to_the_garbage_collector(large: bytes) -> None:
    broken = ModuleMessage.FromString(large)
    broken.computations[0].instructions[-1].operand_ids.append(-5)
    gc.collect()
    gc.disable()
    try:
        found = module_cost(large)
        with pytest.raises(HloDecodeError, match="refers to -5"):
            module_cost(broken.SerializeToString())
        left = [thing for thing in gc.get_objects() if isinstance(thing, Instruction | Computation)]
    finally:
        gc.enable()
    assert len(found.operations) >= 4_000
    assert left == []
