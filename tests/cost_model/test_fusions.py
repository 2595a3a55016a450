"""What a fusion computes: only those elements that its results need, as a compiler emits it from its results."""

import jax
import jax.numpy as jnp
import pytest

ROWS, COLUMNS = 1000, 128
TABLE = jnp.ones((ROWS, COLUMNS))
CHOSEN = jnp.arange(16)


@pytest.mark.parametrize(
    ("function", "needed"),
    [
        (lambda x, _: jnp.exp(x)[:10], 10 * COLUMNS),
        (lambda x, _: jnp.exp(x)[:, -1], ROWS),
        (lambda x, _: jnp.exp(x)[::8], 125 * COLUMNS),
        (lambda x, chosen: jnp.exp(x)[chosen], 16 * COLUMNS),
        (lambda x, _: jnp.exp(x)[:10] + jnp.exp(x)[20:30], 20 * COLUMNS),
        (lambda x, _: jnp.exp(x)[:10] * x[:10], 10 * COLUMNS),
        (lambda x, _: jnp.exp(x).at[:900].set(0.0), 100 * COLUMNS),
        (lambda x, _: jnp.exp(x).at[:900].set(x[100:]), 100 * COLUMNS),
        (lambda x, _: jnp.exp(x), ROWS * COLUMNS),
    ],
    ids=["slice", "last", "strided", "gather", "two slices", "with others", "replaced", "overwritten", "all"],
)
def test_elementwise_work_is_done_for_what_is_taken_of_it(cost_of, function, needed):
    assert cost_of(function, TABLE, CHOSEN).cost.transcendentals == needed


def test_a_loss_subtracts_at_the_labels_alone(cost_of):
    def loss(logits, labels):
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1).sum()

    cost = cost_of(loss, TABLE, jnp.zeros(ROWS, int)).cost
    # The largest is subtracted everywhere and exponentials are added up; what follows is for one element of each row.
    assert 2 * ROWS * (COLUMNS - 1) <= cost.vector_flops <= 2 * ROWS * COLUMNS + 4 * ROWS
    assert cost.transcendentals == ROWS * COLUMNS + ROWS


SUMS = """
  add {{ p = f32[] parameter(0) q = f32[] parameter(1) ROOT a = f32[] add(p, q) }}
  inner {{ p = f32[1000,128]{{1,0}} parameter(0) ROOT s = f32[1000,128]{{1,0}} sine(p) }}
  outer {{
    p = f32[1000,128]{{1,0}} parameter(0)
    z = f32[] constant(0)
    w = f32[1000,128]{{1,0}} fusion(p), kind=kLoop, calls=inner
    r = f32[1000]{{0}} reduce(w, z), dimensions={{1}}, to_apply=add
    {root}
  }}
  ENTRY e {{
    x = f32[1000,128]{{1,0}} parameter(0)
    ROOT f = f32[{rows}]{{0}} fusion(x), kind=kLoop, calls=outer
  }}"""


@pytest.mark.parametrize(
    ("rows", "root"),
    [(1000, "ROOT n = f32[1000]{0} negate(r)"), (10, "ROOT t = f32[10]{0} slice(r), slice={[5:15]}")],
)
def test_sums_and_fusions_within_are_computed_as_far_as_they_are_needed(text_cost, rows, root):
    cost = text_cost(SUMS.format(rows=rows, root=root)).cost
    assert cost.vector_flops == rows * (COLUMNS - 1)
    assert cost.transcendentals == rows * COLUMNS


def test_a_product_is_computed_whole(text_cost):
    """The units that multiply matrices make all of it, whatever is taken of it afterwards."""
    cost = text_cost("""
    f {
      p = f32[64,64]{1,0} parameter(0)
      d = f32[64,64]{1,0} dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      ROOT s = f32[8,64]{1,0} slice(d), slice={[0:8], [0:64]}
    }
    ENTRY e { x = f32[64,64]{1,0} parameter(0) ROOT r = f32[8,64]{1,0} fusion(x), kind=kOutput, calls=f }""").cost
    assert cost.matrix_flops == 2 * 64**3


def test_work_before_an_update_in_place_is_that_of_the_update(text_cost):
    cost = text_cost("""
    f {
      p = f32[1000,128]{1,0} parameter(0)
      i = s32[] parameter(1)
      z = s32[] constant(0)
      r = f32[1,128]{1,0} dynamic-slice(p, i, z), dynamic_slice_sizes={1,128}
      m = f32[1,128]{1,0} multiply(r, r)
      ROOT u = f32[1000,128]{1,0} dynamic-update-slice(p, m, i, z)
    }
    ENTRY e {
      x = f32[1000,128]{1,0} parameter(0)
      i = s32[] parameter(1)
      ROOT r = f32[1000,128]{1,0} fusion(x, i), kind=kLoop, calls=f
    }""").cost
    assert cost.vector_flops == COLUMNS
