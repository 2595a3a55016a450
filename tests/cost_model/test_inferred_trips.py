"""How often loops run whose compiler did not note it, as XLA for TPUs never does: inferred, or said to be unknown."""

import gzip
import itertools
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from jaxobs.cost_model import module_cost
from jaxobs.cost_model.trips import first_failure
from jaxobs.hardware.known_peaks import peaks_for
from jaxobs.roofline_model.bounds import bound_time

X = jnp.ones((16, 16))
PRODUCT = 2 * 16**3


def _counted(first, proceeds, step):
    """A ``while`` with a counter: ``proceeds`` is its condition, ``step`` the counter's next value."""
    return lambda x: lax.while_loop(lambda s: proceeds(s[0]), lambda s: (step(s[0]), s[1] @ x), (first, x))


def _scan(length, **options):
    return lambda x: lax.scan(lambda c, _: (c @ x, None), x, None, length=length, **options)[0]


def _nested(*lengths):
    def run(x, carry, left):
        if not left:
            return carry @ x
        return lax.fori_loop(0, left[0], lambda _, c: run(x, c, left[1:]), carry)

    return lambda x: run(x, x, lengths)


def _over_rows(x):
    return lax.scan(lambda c, row: (c @ x + row, c.sum()), x, jnp.ones((9, 16)))


def _gradient(x):
    return jax.grad(lambda w: lax.scan(lambda c, _: (jnp.sin(c @ w), None), x, None, length=6)[0].sum())(x)


def _rematerialized(x):
    layer = jax.checkpoint(lambda c, w: (jnp.sin(c @ w), None))
    return jax.grad(lambda ws: lax.scan(layer, x, ws)[0].sum())(jnp.ones((5, 16, 16)))


def _two_counters(x):
    return lax.while_loop(
        lambda s: s[0] < s[1], lambda s: (s[0] + 2, s[1] - 1, s[2] @ x), (jnp.int32(0), jnp.int32(30), x)
    )


def _bound_in_the_state(x):
    return lax.while_loop(lambda s: s[0] < s[1], lambda s: (s[0] + 1, s[1], s[2] @ x), (0, 11, x))


def _inner_bound_from_outer_state(x):
    def outer(state):
        i, bound, c = state
        return i + 1, bound, lax.while_loop(lambda s: s[0] < bound, lambda s: (s[0] + 1, s[1] @ x), (0, c))[1]

    return lax.while_loop(lambda s: s[0] < 4, outer, (0, 7, x))


def _triangular(x):
    return lax.fori_loop(0, 6, lambda i, c: lax.fori_loop(0, i, lambda _, d: d @ x, c), x)


def _after_another(x):
    i, c = lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, s[1] @ x), (0, x))
    return lax.while_loop(lambda s: s[0] < 9, lambda s: (s[0] + 1, s[1] @ x), (i, c))


def _in_a_branch(x):
    return lax.cond(x[0, 0] > 0, _scan(5), _scan(5), x)


def _updated_in_a_branch(x):
    def step(state):
        i, c = state
        return lax.cond(c[0, 0] > 0, lambda: i + 1, lambda: i + 2), c @ x

    return lax.while_loop(lambda s: s[0] < 8, step, (0, x))


STATIC = {
    **{f"scan of {n}": _scan(n) for n in (2, 3, 17, 1000)},
    **{f"scan of {n}, unrolled by {u}": _scan(n, unroll=u) for n, u in ((12, 3), (13, 4), (40, 2))},
    "scan in reverse": _scan(21, reverse=True),
    "scan over rows": _over_rows,
    "scan of scans": lambda x: lax.scan(lambda c, _: (_scan(4)(c), None), x, None, length=6)[0],
    "map": lambda x: lax.map(lambda row: row @ x, jnp.ones((10, 16, 16))),
    "batches of a map": lambda x: lax.map(lambda row: row @ x, jnp.ones((10, 16, 16)), batch_size=2),
    "gradient of a scan": _gradient,
    "gradient of a rematerialised scan": _rematerialized,
    **{
        f"fori from {low} to {high}": (
            lambda x, low=low, high=high: lax.fori_loop(low, high, lambda _, c: c @ x, x)
        )
        for low, high in ((0, 5), (-5, 5), (3, 60), (2**31 - 9, 2**31 - 1))
    },
    "fori with the counter in use": lambda x: lax.fori_loop(0, 9, lambda i, c: c @ x + i, x),
    **{f"nested {lengths}": _nested(*lengths) for lengths in ((2, 3), (7, 5), (2, 3, 4), (3, 1, 5))},
    **{
        f"up by {step} below {bound}": _counted(
            0, lambda i, bound=bound: i < bound, lambda i, step=step: i + step
        )
        for step, bound in itertools.product((1, 2, 7), (14, 15))
    },
    **{
        f"down by {step} above {bound}": _counted(
            40, lambda i, bound=bound: i > bound, lambda i, step=step: i - step
        )
        for step, bound in itertools.product((1, 4), (0, -3))
    },
    "up to and including": _counted(1, lambda i: i <= 12, lambda i: i + 1),
    "down to and including": _counted(12, lambda i: i >= 0, lambda i: i - 5),
    "until it is met": _counted(0, lambda i: i != 12, lambda i: i + 3),
    "until it is met, downwards": _counted(9, lambda i: i != -3, lambda i: i - 4),
    "while equal": _counted(4, lambda i: i == 4, lambda i: i + 1),
    "the bound on the left": _counted(0, lambda i: 13 > i, lambda i: 1 + i),  # noqa: SIM300
    "the condition has a sum": _counted(0, lambda i: i + 3 < 20, lambda i: i + 1),
    "two additions": _counted(0, lambda i: i < 20, lambda i: (i + 3) - 1),
    "unsigned": _counted(jnp.uint32(2), lambda i: i < 31, lambda i: i + jnp.uint32(5)),
    "small integers": _counted(jnp.int8(0), lambda i: i < 100, lambda i: i + jnp.int8(9)),
    "floating counter": _counted(0.0, lambda i: i < 5.0, lambda i: i + 0.5),
    "doubling": _counted(1, lambda i: i < 1000, lambda i: i * 2),
    "two counters": _two_counters,
    "bound in the state": _bound_in_the_state,
    "inner bound from the outer state": _inner_bound_from_outer_state,
    "one after another": _after_another,
    "in a branch": _in_a_branch,
    "called twice": lambda x: jax.jit(_scan(5))(jax.jit(_scan(5))(x)),
    "batched": lambda x: jax.vmap(_scan(6))(jnp.ones((3, 16, 16))),
}
"""Loops whose number of turns is known, and is mostly noted by XLA for CPUs."""

BY_ANOTHER = {"one after another"}
"""Loops that begin with what another has counted, which XLA notes from JAX 0.10 on."""

DYNAMIC = {
    "a bound that is an argument": lambda x, n: lax.fori_loop(0, n, lambda _, c: c @ x, x),
    "a first value that is an argument": lambda x, n: _counted(n, lambda i: i < 10, lambda i: i + 1)(x),
    "a step that is an argument": lambda x, n: _counted(0, lambda i: i < 10, lambda i: i + n)(x),
    "until it converges": lambda x, n: lax.while_loop(lambda c: c.sum() > n, lambda c: c @ x * 0.01, x),
    "a count or convergence": lambda x, n: lax.while_loop(
        lambda s: (s[0] < 10) & (s[1].sum() > n), lambda s: (s[0] + 1, s[1] @ x), (0, x)
    ),
    "a step that depends on data": lambda x, n: _updated_in_a_branch(x + n),
    "a bound that changes": lambda x, n: lax.while_loop(
        lambda s: s[0] < s[1], lambda s: (s[0] + 1, s[1] - s[2][0, 0].astype(int), s[2] @ x), (0, 50, x + n)
    ),
    "a bound that grows with an outer loop": lambda x, n: _triangular(x + n),
    "an argument within a static loop": lambda x, n: lax.fori_loop(
        0, 4, lambda _, c: lax.fori_loop(0, n, lambda _, d: d @ x, c), x
    ),
}
BRUTE_FORCE = ("small integers", "floating counter", "doubling")
"""Those that XLA counts by running them."""


def _without_counts(serialized):
    """The module as a compiler leaves it that notes no trip counts."""
    return serialized.replace(b'"known_trip_count"', b'"other_trip_count"')


def test_there_are_fifty_loops():
    assert len(STATIC) + len(DYNAMIC) >= 50


@pytest.mark.parametrize("name", STATIC)
def test_flops_are_those_with_the_compilers_count_or_unknown(proto, name):
    serialized = proto(STATIC[name], X)
    noted, inferred = module_cost(serialized).cost, module_cost(_without_counts(serialized)).cost
    if name in BRUTE_FORCE:
        assert not inferred.exact
    else:
        assert inferred == noted
        assert inferred.exact or name in BY_ANOTHER


@pytest.mark.parametrize(
    ("proceeds", "turns"), [(lambda i: 20 - i > 0, 20), (lambda i: 9 - (4 - i) < 30, 25)]
)
def test_what_the_condition_takes_from_a_constant_counts_down(proto, proceeds, turns):
    """XLA for CPUs notes no count of such a loop."""
    cost = module_cost(proto(_counted(0, proceeds, lambda i: i + 1), X)).cost
    assert (cost.matrix_flops, cost.exact) == (turns * PRODUCT, True)


@pytest.mark.parametrize("name", DYNAMIC)
def test_nothing_is_inferred_where_it_depends_on_data(proto, name):
    cost = module_cost(_without_counts(proto(DYNAMIC[name], X, 3))).cost
    assert not cost.exact
    assert "cannot be told from its module before run time" in cost.inexact_reasons[0]


@given(
    direction=st.sampled_from(["LT", "LE", "GT", "GE", "EQ", "NE"]),
    gap=st.integers(-60, 60),
    step=st.integers(-9, 9),
)
def test_the_first_failure_is_that_found_by_counting(direction, gap, step):
    holds = {
        "LT": int.__lt__, "LE": int.__le__, "GT": int.__gt__, "GE": int.__ge__, "EQ": int.__eq__, "NE": int.__ne__,
    }[direction]  # fmt: skip
    counted = next((k for k in range(200) if not holds(gap + k * step, 0)), None)
    assert first_failure(direction.encode(), gap, step) == counted


TPU = """HloModule tpu
body {{
  state = ({type}[]{{:T(128)}}, f32[16,16]{{1,0:T(8,128)}}) parameter(0)
  i = {type}[]{{:T(128)}} get-tuple-element(state), index=0
  x = f32[16,16]{{1,0:T(8,128)}} get-tuple-element(state), index=1
  step = {type}[]{{:T(128)}} constant({step})
  next = {type}[]{{:T(128)}} add(i, step)
  y = f32[16,16]{{1,0:T(8,128)}} convolution(x, x), dim_labels=bf_io->bf
  ROOT result = ({type}[]{{:T(128)}}, f32[16,16]{{1,0:T(8,128)}}) tuple(next, y)
}}
condition {{
  state = ({type}[]{{:T(128)}}, f32[16,16]{{1,0:T(8,128)}}) parameter(0)
  i = {type}[]{{:T(128)}} get-tuple-element(state), index=0
  bound = {type}[]{{:T(128)}} constant({bound})
  ROOT proceed = pred[]{{:T(512)}} compare(i, bound), direction={direction}
}}
ENTRY e {{
  x = f32[16,16]{{1,0:T(8,128)}} parameter(0)
  zero = {type}[]{{:T(128)}} constant({first})
  copy = {type}[]{{:T(128)}} copy(zero)
  state = ({type}[]{{:T(128)}}, f32[16,16]{{1,0:T(8,128)}}) tuple(copy, x)
  ROOT loop = ({type}[]{{:T(128)}}, f32[16,16]{{1,0:T(8,128)}}) while(state), condition=condition, body=body
}}"""


@settings(deadline=None, max_examples=60)
@given(
    direction=st.sampled_from(["LT", "LE", "GT", "GE", "EQ", "NE"]),
    first=st.integers(-40, 40),
    bound=st.integers(-40, 40),
    step=st.integers(-6, 6),
)
def test_a_tpus_loop_runs_as_often_as_counting_it_says(text_cost, direction, first, bound, step):
    text = TPU.format(type="s32", direction=direction, first=first, bound=bound, step=step)
    cost = text_cost(text).cost
    trips = first_failure(direction.encode(), first - bound, step)
    assert cost.exact == (trips is not None)
    assert cost.matrix_flops == PRODUCT * (1 if trips is None else trips)


@pytest.mark.parametrize(
    ("type_", "first", "bound", "step", "direction"),
    [
        (
            "s32",
            0,
            2**31 - 1,
            2,
            "LT",
        ),  # 2147483646 is the last value below the bound, and the next overflows
        ("s32", 0, 2**31 - 1, 1, "LE"),
        ("u32", 5, 0, -1 % 2**32, "GT"),
        ("u32", 5, 0, 1, "GE"),
    ],
)
def test_a_counter_that_would_overflow_is_none(text_cost, type_, first, bound, step, direction):
    cost = text_cost(TPU.format(type=type_, first=first, bound=bound, step=step, direction=direction)).cost
    assert not cost.exact


def test_a_value_that_has_already_wrapped_at_first_is_none(text_cost):
    """0 - 10 is no number below 10 where there are no negative ones."""
    text = TPU.format(type="u32", first=0, bound=10, step=1, direction="LT")
    shifted = "shifted = u32[]{:T(128)} subtract(i, bound)\n  ROOT proceed"
    cost = text_cost(text.replace("ROOT proceed", shifted).replace("compare(i,", "compare(shifted,")).cost
    assert not cost.exact
    assert cost.matrix_flops == PRODUCT


def _llama():
    file = Path(__file__).parent / "data" / "llama_step_tpu_v6e.hlo.pb.gz"
    return module_cost(gzip.decompress(file.read_bytes()))


def test_a_llama_step_of_a_tpu_counts_its_layers_and_chunks():
    """By hand: 32 layers, whose products but the last of an MLP are repeated in the backward pass, and the vocabulary."""
    module = _llama()
    products = [operation for operation in module.operations if operation.opcode == "fusion"]
    tokens, width, kv, mlp, vocabulary = 4 * 8192, 4096, 1024, 14336, 63 * 2048
    layer = 2 * width**2 + 2 * width * kv + 3 * width * mlp
    layers = 32 * 2 * tokens * (4 * layer - width * mlp)
    head = 4 * 2 * tokens * width * vocabulary
    assert sum(operation.cost.matrix_flops for operation in products) == layers + head
    assert module.iterations == 32
    assert not any("loop" in reason for reason in module.cost.inexact_reasons)
    assert module.cost.unmodelled == ()


def test_what_a_llama_step_multiplies_in_float32_is_left_to_the_tpu():
    """The gradient of the vocabulary's chunks: XLA widens the operands, and asks for no precision."""
    cost = _llama().cost
    chunks = 2 * 4 * 8192 * 4096 * 63 * 2048
    assert (
        cost.executed_float32_flops_by_precision["default"] == cost.executed_matrix_flops_by_type["float32"]
    )
    assert cost.executed_matrix_flops_by_type["float32"] == 2 * chunks
    on_tpu = peaks_for("TPU v6 lite", "tpu")
    assert bound_time(cost, on_tpu).matrix_seconds == pytest.approx(cost.matrix_flops / 918e12)
