"""Wrong bytes end in one clear error, whatever is wrong with them."""

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxobs.cost_model import HloDecodeError, module_cost
from jaxobs.cost_model.hlo import decode
from jaxobs.proto.messages import ModuleMessage, ShapeMessage


@pytest.fixture(scope="module")
def serialized(proto):
    """A module with a loop, a conditional, products, a convolution, reductions, slices and a custom call."""

    def step(carry, x):
        carry = jax.lax.cond(x[0, 0] > 0, lambda c: c @ c, jnp.tanh, carry)
        return carry, jnp.linalg.cholesky(carry)[2:5]

    def program(carry, xs, image, kernel):
        image = jax.lax.conv_general_dilated(image, kernel, (1, 1), "SAME")
        image = jax.lax.reduce_window(image, 0.0, jax.lax.add, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        return jax.lax.scan(step, carry, xs), jnp.sort(image), jnp.fft.rfft(image)

    return proto(program, jnp.eye(8), jnp.ones((3, 8, 8)), jnp.ones((1, 2, 8, 8)), jnp.ones((2, 2, 3, 3)))


def _read_or_refuse(data):
    """The only two outcomes: a finite cost, or the documented error with a message."""
    try:
        found = module_cost(data)
    except HloDecodeError as refusal:
        reason = str(refusal)
    else:
        reason = "read"
        assert found.cost.flops >= 0
        assert 0 <= found.cost.bytes < float("inf")
    assert reason


def test_the_error_is_a_value_error():
    assert issubclass(HloDecodeError, ValueError)


@pytest.mark.parametrize("data", [b"", b"hello", b"\x00" * 40, b"\x1f\x8b\x08\x00gzip", b"\xff" * 100])
def test_foreign_bytes_are_refused(data):
    with pytest.raises(HloDecodeError, match=r"HloModuleProto|HLO computation"):
        module_cost(data)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400))
def test_random_bytes_never_raise_anything_else(data):
    _read_or_refuse(data)


@settings(max_examples=200, deadline=None)
@given(cut=st.floats(0, 1, exclude_max=True))
def test_a_truncated_module_is_refused_or_read(serialized, cut):
    _read_or_refuse(serialized[: int(len(serialized) * cut)])


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_corrupted_bytes_never_raise_anything_else(serialized, data):
    corrupted = bytearray(serialized)
    for _ in range(data.draw(st.integers(1, 8))):
        corrupted[data.draw(st.integers(0, len(corrupted) - 1))] = data.draw(st.integers(0, 255))
    _read_or_refuse(bytes(corrupted))


_NUMBERS = st.one_of(st.integers(-3, 5), st.sampled_from([2**31, 2**62, -(2**63), 2**63 - 1]))


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_implausible_fields_never_raise_anything_else(serialized, data):
    message = ModuleMessage.FromString(serialized)
    for _ in range(data.draw(st.integers(1, 3))):
        computation = message.computations[data.draw(st.integers(0, len(message.computations) - 1))]
        instruction = computation.instructions[data.draw(st.integers(0, len(computation.instructions) - 1))]
        _spoil(instruction, data)
    _read_or_refuse(message.SerializeToString())


def _spoil(message, data):
    """Replace one number somewhere in the message, or empty one field."""
    fields = [
        (field, value)
        for field, value in message.ListFields()
        if field.name not in ("name", "metadata", "id")
    ]
    if not fields:
        return
    field, value = fields[data.draw(st.integers(0, len(fields) - 1))]
    number = data.draw(_NUMBERS)
    if field.type == field.TYPE_INT32:
        number = min(max(number, -(2**31)), 2**31 - 1)
    if field.name == "shape":
        shape = ShapeMessage.FromString(value)
        shape.element_type = data.draw(st.integers(0, 40))
        shape.dimensions.extend([number] if number > 0 else [])
        message.shape = shape.SerializeToString()
    elif isinstance(value, int):
        setattr(message, field.name, number)
    elif field.message_type is not None and not isinstance(value, (bytes, str)):
        inner = value[0] if hasattr(value, "__len__") else value
        _spoil(inner, data)
    elif hasattr(value, "__setitem__") and value and isinstance(value[0], int):
        value[data.draw(st.integers(0, len(value) - 1))] = number
    else:
        message.ClearField(field.name)


def test_a_module_beyond_the_limit_is_refused(serialized, monkeypatch):
    with decode.decoded(serialized) as module:
        count = sum(len(computation.instructions) for computation in module.computations)
    monkeypatch.setattr(decode, "MAXIMUM_INSTRUCTIONS", count)
    assert module_cost(serialized).operations
    monkeypatch.setattr(decode, "MAXIMUM_INSTRUCTIONS", count - 1)
    with pytest.raises(HloDecodeError, match="more than the limit"):
        module_cost(serialized)


def test_a_computation_that_calls_itself_is_refused(text_proto):
    text = """
    f { p = f32[4]{0} parameter(0) ROOT n = f32[4]{0} negate(p) }
    ENTRY e { a = f32[4]{0} parameter(0) ROOT r = f32[4]{0} fusion(a), kind=kLoop, calls=f }"""
    message = ModuleMessage.FromString(text_proto(text))
    _fused, entry = message.computations
    entry.instructions[-1].called_computation_ids[0] = entry.id
    with pytest.raises(HloDecodeError, match="calls itself"):
        module_cost(message.SerializeToString())


def test_a_very_deep_module_is_read(text_proto):
    """A chain of calls far longer than the interpreter's recursion limit."""
    message = ModuleMessage.FromString(
        text_proto("""
        f { p = f32[4]{0} parameter(0) ROOT n = f32[4]{0} add(p, p) }
        ENTRY e { a = f32[4]{0} parameter(0) ROOT r = f32[4]{0} call(a), to_apply=f }""")
    )
    leaf, entry = message.computations
    template = ModuleMessage.FromString(message.SerializeToString()).computations[1]
    called = leaf.id
    for number in range(5000):
        computation = message.computations.add()
        computation.CopyFrom(template)
        computation.id = 10_000 + number
        computation.instructions[-1].called_computation_ids[0] = called
        called = computation.id
    entry = message.computations[1]
    entry.instructions[-1].called_computation_ids[0] = called
    found = module_cost(message.SerializeToString())
    assert found.cost.vector_flops == 4
    assert found.operations[0].executions == 1


def test_an_opcode_from_the_future_is_named_as_unmodelled(text_proto):
    message = ModuleMessage.FromString(
        text_proto("ENTRY e { a = f32[4]{0} parameter(0) ROOT n = f32[4]{0} negate(a) }")
    )
    message.computations[0].instructions[-1].opcode = b"quantum-multiply"
    cost = module_cost(message.SerializeToString()).cost
    assert cost.unmodelled == ("quantum-multiply",)
    assert cost.bytes == 32
