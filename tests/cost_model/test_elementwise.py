"""FLOPs and transcendentals of work on each element, real and complex."""

import jax.numpy as jnp
import pytest
from jax import lax

from jaxobs.cost_model import module_cost
from jaxobs.proto.messages import ModuleMessage

REAL = jnp.ones(1000)


@pytest.mark.parametrize("function", [jnp.sqrt, lax.rsqrt, lambda x: 2 / x, lambda x: x * 3])
def test_a_root_is_one_operation_as_a_quotient_is(cost_of, function):
    """Processors have an instruction for it: at the rate of exponentials Adam on arrays in cache would beat its bound."""
    cost = cost_of(function, REAL).cost
    assert (cost.vector_flops, cost.transcendentals) == (1000, 0)


@pytest.mark.parametrize("function", [jnp.exp, jnp.log, jnp.tanh, jnp.sin, jnp.log1p])
def test_an_elementary_function_is_one_transcendental(cost_of, function):
    assert cost_of(function, REAL).cost.transcendentals == 1000


def test_complex_roots_and_magnitudes_follow_from_their_parts(text_cost):
    cost = text_cost("""ENTRY e {
      z = c64[1000]{0} parameter(0)
      r = c64[1000]{0} sqrt(z)
      ROOT a = f32[1000]{0} abs(r)
    }""").cost
    assert (cost.vector_flops, cost.transcendentals) == (1000 * (9 + 4), 0)


def test_the_high_half_of_an_integer_product_is_no_flop(text_proto):
    """``jax.lax.mulhi`` of JAX 0.12, whose opcode older parsers do not know."""
    text = "ENTRY e { a = u32[100] parameter(0) ROOT m = u32[100] multiply(a, a) }"
    message = ModuleMessage.FromString(text_proto(text))
    message.computations[0].instructions[-1].opcode = b"mulhi"
    cost = module_cost(message.SerializeToString()).cost
    assert (cost.flops, cost.unmodelled) == (0, ())
