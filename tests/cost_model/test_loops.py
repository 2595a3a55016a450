"""Work in loops, branches and calls."""

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

SQUARE = jnp.ones((256, 256))
PRODUCT = 2 * 256**3


FUSED_CONDITIONAL = """
    once { x = f32[8]{0} parameter(0) ROOT y = f32[8]{0} add(x, x) }
    twice { x = f32[8]{0} parameter(0) y = f32[8]{0} add(x, x) ROOT z = f32[8]{0} add(y, x) }
    fused {
      p = pred[] parameter(0)
      x = f32[8]{0} parameter(1)
      ROOT c = f32[8]{0} conditional(p, x, x), true_computation=once, false_computation=twice
    }
    ENTRY e {
      p = pred[] parameter(0)
      x = f32[8]{0} parameter(1)
      ROOT f = f32[8]{0} fusion(p, x), kind=kLoop, calls=fused
    }"""


def _repeated(times):
    return lambda x, w: lax.scan(lambda carry, _: (carry @ w, None), x, None, length=times)[0]


def test_a_scan_counts_its_body_for_each_step(cost_of):
    cost = cost_of(_repeated(100), SQUARE, SQUARE).cost
    assert cost.matrix_flops_by_type == {"float32": 3_355_443_200}
    assert cost.exact


def test_a_fori_loop_counts_its_body_for_each_turn(cost_of):
    cost = cost_of(lambda x, w: lax.fori_loop(0, 10, lambda _, c: c @ w, x), SQUARE, SQUARE).cost
    assert cost.matrix_flops == 335_544_320


def test_nested_scans_multiply(cost_of):
    def outer(x, w):
        return lax.scan(lambda carry, _: (_repeated(5)(carry, w), None), x, None, length=4)[0]

    assert cost_of(outer, SQUARE, SQUARE).cost.matrix_flops == 671_088_640


def test_loop_counters_are_no_flops(cost_of):
    cost = cost_of(_repeated(100), SQUARE, SQUARE).cost
    assert cost.vector_flops == 0
    assert cost.transcendentals == 0


@settings(max_examples=12, deadline=None)
@given(times=st.integers(2, 60), width=st.sampled_from([4, 8, 16]))
def test_a_scan_of_length_n_costs_n_times_its_body(cost_of, times, width):
    def scan(length):
        def body(carry, step):
            return jnp.tanh(carry @ carry) * step, jnp.sum(carry)

        return lambda x, steps: lax.scan(body, x, steps, length=length)

    def cost(length):
        return cost_of(scan(length), jnp.ones((width, width)), jnp.ones(length)).cost

    once, often = cost(times), cost(3 * times)
    assert once.matrix_flops == times * 2 * width**3
    assert often.matrix_flops == 3 * once.matrix_flops
    assert often.vector_flops == 3 * once.vector_flops
    assert often.transcendentals == 3 * once.transcendentals == 3 * times * width**2


def test_a_loop_with_a_dynamic_bound_is_a_flagged_lower_bound(cost_of):
    def until(n, x):
        return lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] @ s[1]), (0, x))

    found = cost_of(until, 5, SQUARE)
    assert found.cost.matrix_flops == PRODUCT
    assert not found.cost.exact
    assert any("run time" in reason for reason in found.cost.inexact_reasons)


def test_a_static_loop_around_a_dynamic_one_is_flagged(cost_of):
    def inner(x):
        return lax.while_loop(lambda c: jnp.sum(c) < 1e9, lambda c: c @ c, x)

    found = cost_of(lambda x: lax.fori_loop(0, 7, lambda _, c: inner(c), x), SQUARE)
    assert found.cost.matrix_flops == 7 * PRODUCT
    assert not found.cost.exact


def test_a_conditional_counts_as_its_least_branch(cost_of):
    found = cost_of(lambda p, x: lax.cond(p, lambda y: y @ y, lambda y: y + 1, x), True, SQUARE)
    assert not found.cost.exact
    assert found.cost.matrix_flops == 0
    assert found.cost.vector_flops == 256**2
    assert str(found.cost).startswith("at least 65.5 kFLOP")


def test_a_conditional_inside_a_fusion_has_the_least_of_its_branches_and_says_so(text_cost):
    cost = text_cost(FUSED_CONDITIONAL).cost
    assert cost.vector_flops == 8
    assert len(cost.inexact_reasons) == 1
    assert "conditional c takes a branch" in cost.inexact_reasons[0]


@pytest.mark.parametrize(
    ("without_flops", "begins"),
    [
        (lambda x: jnp.sort(x)[0, 0], "about"),
        (lambda x: jnp.max(jnp.exp(x)), "about"),
        (lambda x: x[0, 0], "at least"),
    ],
    ids=["more bytes", "more of all but FLOPs", "less of all"],
)
def test_a_branch_with_the_fewest_flops_is_a_lower_bound_if_it_has_the_least_of_all(
    cost_of, without_flops, begins
):
    found = cost_of(lambda p, x: lax.cond(p, without_flops, lambda y: y[0, 0] * 3 + y[1, 1], x), True, SQUARE)
    assert found.cost.flops == 0
    assert str(found.cost).startswith(begins)


def test_a_conditional_whose_branches_cost_the_same_is_exact(cost_of):
    found = cost_of(lambda p, x, y: lax.cond(p, lambda: x @ y, lambda: y @ x), True, SQUARE, SQUARE)
    assert found.cost.exact
    assert found.cost.matrix_flops == PRODUCT


def test_a_switch_in_a_scan_counts_the_least_branch_each_step(cost_of):
    def step(carry, choice):
        branches = [lambda c: c @ c, lambda c: c @ c @ c, lambda c: c @ c @ c @ c]
        return lax.switch(choice, branches, carry), None

    found = cost_of(lambda x, choices: lax.scan(step, x, choices)[0], SQUARE, jnp.zeros(6, int))
    assert found.cost.matrix_flops == 6 * PRODUCT


def test_operations_add_up_to_the_module(cost_of):
    def step(carry, flag):
        return lax.cond(flag, lambda c: jnp.sin(c @ c), lambda c: c @ c @ c, carry), jnp.sum(carry)

    found = cost_of(lambda x, flags: lax.scan(step, x, flags), SQUARE, jnp.ones(9, bool))
    for figure in ("matrix_flops", "vector_flops", "transcendentals", "bytes"):
        total = sum(getattr(operation.cost, figure) for operation in found.operations)
        assert total == pytest.approx(getattr(found.cost, figure)), figure
    assert any(operation.executions == 0 and operation.once.matrix_flops for operation in found.operations)


def test_products_named_as_rematerialised_that_run_once_are_first_work(cost_of):
    """A gradient alone needs no forward pass beside the repeated one: the compiler leaves one of them."""

    def layer(w, x):
        return jnp.sin(jnp.sin(x @ w) @ w)

    def loss(layer_):
        return lambda w, x: jnp.sum(layer_(w, x))

    plain = cost_of(jax.grad(loss(layer)), SQUARE, SQUARE).cost
    again = cost_of(jax.grad(loss(jax.checkpoint(layer))), SQUARE, SQUARE).cost
    assert plain.matrix_flops == again.matrix_flops == 5 * PRODUCT
    assert plain.rematerialized_flops == again.rematerialized_flops == 0


NAMED = """ENTRY e {{
  x = f32[256,256]{{1,0}} parameter(0)
  a = f32[256,256]{{1,0}} dot(x, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}},
    metadata={{op_name="jit(f)/jvp({forward})/dot_general"}}
  b = f32[256,256]{{1,0}} dot(a, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}},
    metadata={{op_name="jit(f)/transpose(jvp({again}))/checkpoint/rematted_computation/dot_general"}}
  c = f32[256,256]{{1,0}} dot(b, a), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}},
    metadata={{op_name="jit(f)/transpose(jvp({again}))/checkpoint/{deeper}dot_general"}}
  ROOT d = f32[256,256]{{1,0}} add(a, c)
}}"""
DEEPER = "rematted_computation/checkpoint/rematted_computation/"


@pytest.mark.parametrize(
    ("forward", "again", "deeper", "repeated"),
    [
        ("layer", "layer", "", 1),
        ("layer", "layer", DEEPER, 2),
        ("other", "layer", "", 0),
        ("other", "layer", DEEPER, 1),
    ],
)
def test_a_product_is_repeated_where_its_scope_has_a_forward_one(text_cost, forward, again, deeper, repeated):
    cost = text_cost(NAMED.format(forward=forward, again=again, deeper=deeper)).cost
    assert cost.matrix_flops == 3 * PRODUCT
    assert cost.rematerialized_flops == repeated * PRODUCT
    left = cost.rematerialized_float32_flops_by_precision
    assert left == ({"default": repeated * PRODUCT} if repeated else {})


def test_rematerialisation_inside_a_scan_is_multiplied(cost_of):
    @jax.checkpoint
    def layer(carry, w):
        return jnp.sin(carry @ w), None

    def loss(ws, x):
        return jnp.sum(lax.scan(layer, x, ws)[0])

    cost = cost_of(jax.grad(loss), jnp.ones((6, 64, 64)), jnp.ones((64, 64))).cost
    product = 2 * 64**3
    assert cost.rematerialized_flops == 6 * product
    assert cost.matrix_flops - cost.rematerialized_flops == 3 * 6 * product
