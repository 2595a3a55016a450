"""Matrix products, factorisations and transforms against their closed forms."""

from math import log2

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

N = 256
SQUARE = jnp.ones((N, N))


@pytest.mark.parametrize(
    ("subscripts", "left", "right", "multiply_adds"),
    [
        ("mk,kn->mn", (30, 40), (40, 50), 30 * 40 * 50),
        ("km,nk->mn", (40, 30), (50, 40), 30 * 40 * 50),
        ("bmk,bkn->bmn", (7, 30, 40), (7, 40, 50), 7 * 30 * 40 * 50),
        ("bthd,bshd->bhts", (2, 16, 4, 8), (2, 16, 4, 8), 2 * 4 * 16 * 16 * 8),
        ("mk,k->m", (30, 40), (40,), 30 * 40),
        ("mkl,kln->mn", (8, 9, 10), (9, 10, 11), 8 * 9 * 10 * 11),
    ],
)
def test_a_product_is_two_flops_for_each_multiply_add(cost_of, subscripts, left, right, multiply_adds):
    cost = cost_of(lambda a, b: jnp.einsum(subscripts, a, b), jnp.ones(left), jnp.ones(right)).cost
    assert cost.matrix_flops_by_type == {"float32": 2 * multiply_adds}


@settings(max_examples=15, deadline=None)
@given(m=st.integers(2, 40), k=st.integers(2, 40), n=st.integers(2, 40), data=st.data())
def test_flops_do_not_depend_on_layout(cost_of, m, k, n, data):
    first = data.draw(st.permutations(["m", "k", "b"]))
    second = data.draw(st.permutations(["k", "n", "b"]))
    sizes = {"m": m, "k": k, "n": n, "b": 3}
    subscripts = f"{''.join(first)},{''.join(second)}->bmn"
    left = jnp.ones([sizes[name] for name in first])
    right = jnp.ones([sizes[name] for name in second])
    cost = cost_of(lambda a, b: jnp.einsum(subscripts, a, b), left, right).cost
    assert cost.matrix_flops == 2 * 3 * m * n * k


def test_a_complex_product_is_eight_flops_for_each_multiply_add(cost_of):
    cost = cost_of(lambda a, b: a @ b, SQUARE.astype("complex64"), SQUARE.astype("complex64")).cost
    assert cost.matrix_flops_by_type == {"complex64": 8 * N**3}
    assert cost.executed_matrix_flops_by_type == {"float32": 8 * N**3}


@pytest.mark.parametrize("name", ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"])
def test_source_and_executed_type_are_told_apart(cost_of, name):
    narrow = SQUARE.astype(name)
    cost = cost_of(lambda a, b: lax.dot(a, b, preferred_element_type=jnp.float32), narrow, narrow).cost
    assert cost.matrix_flops_by_type == {name: 2 * N**3}
    assert sum(cost.executed_matrix_flops_by_type.values()) == 2 * N**3
    assert set(cost.executed_matrix_flops_by_type) <= {name, "float32"}


def test_a_conversion_that_the_program_asked_for_decides_the_type(cost_of):
    def widened(a, b):
        return a.astype(jnp.float32) @ b.astype(jnp.float32)

    narrow = SQUARE.astype(jnp.bfloat16)
    assert cost_of(widened, narrow, narrow).cost.matrix_flops_by_type == {"float32": 2 * N**3}

    def narrowed(a, b):
        return a.astype(jnp.bfloat16) @ b.astype(jnp.bfloat16)

    assert cost_of(narrowed, SQUARE, SQUARE).cost.matrix_flops_by_type == {"bfloat16": 2 * N**3}


def test_a_chain_of_low_precision_products_keeps_its_type(cost_of):
    def layers(x, ws):
        return lax.scan(lambda carry, w: (jax.nn.relu(carry @ w @ w), None), x, ws)[0]

    cost = cost_of(layers, jnp.ones((8, 64), jnp.bfloat16), jnp.ones((5, 64, 64), jnp.bfloat16)).cost
    assert cost.matrix_flops_by_type == {"bfloat16": 5 * 2 * 2 * 8 * 64 * 64}


def test_integer_products_are_no_flops_and_work_that_is_not_known(cost_of):
    """With bytes alone they would be called limited by memory, which a large one is not."""
    cost = cost_of(lax.dot, jnp.ones((64, 64), "int8"), jnp.ones((64, 64), "int8")).cost
    assert cost.flops == 0
    assert cost.bytes > 0
    assert cost.unmodelled == ("dot of integers",)


def test_an_outer_product_that_became_a_multiplication_is_a_matrix_product(cost_of):
    cost = cost_of(lambda a, b: jnp.einsum("i,j->ij", a, b), jnp.ones(100), jnp.ones(200)).cost
    assert cost.matrix_flops == 100 * 200
    assert cost.vector_flops == 0


def test_ragged_products_count_each_row_once(text_cost):
    found = text_cost("""ENTRY e {
      a = bf16[64,32]{1,0} parameter(0)
      b = bf16[4,32,16]{2,1,0} parameter(1)
      g = s32[4]{0} parameter(2)
      ROOT d = bf16[64,16]{1,0} ragged-dot(a, b, g), lhs_contracting_dims={1}, rhs_contracting_dims={1},
        lhs_ragged_dims={0}, rhs_group_dims={0}
    }""")
    assert found.cost.matrix_flops_by_type == {"bfloat16": 2 * 64 * 32 * 16}


def test_ragged_products_with_a_ragged_contraction(text_cost):
    found = text_cost("""ENTRY e {
      a = f32[64,32]{1,0} parameter(0)
      b = f32[64,16]{1,0} parameter(1)
      g = s32[4]{0} parameter(2)
      ROOT d = f32[4,32,16]{2,1,0} ragged-dot(a, b, g), lhs_contracting_dims={0}, rhs_contracting_dims={0},
        lhs_ragged_dims={0}
    }""")
    assert found.cost.matrix_flops == 2 * 64 * 32 * 16


def test_a_precision_algorithm_names_a_type_and_passes_that_the_device_may_take(text_cost):
    found = text_cost("""ENTRY e {
      a = f32[64,32]{1,0} parameter(0)
      b = f32[32,16]{1,0} parameter(1)
      ROOT d = f32[64,16]{1,0} dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0},
        algorithm=dot_bf16_bf16_f32_x3
    }""")
    assert found.cost.matrix_flops_by_type == {"float32": 2 * 64 * 32 * 16}
    assert found.cost.executed_matrix_flops_by_type == {"float32": 2 * 64 * 32 * 16}
    assert found.cost.float32_flops_by_precision == {"bfloat16_x3": 2 * 64 * 32 * 16}


@pytest.mark.parametrize(
    ("function", "shapes", "multiply_adds"),
    [
        (lambda a, b: jnp.einsum("bi,bi->b", a, b), [(64, 128), (64, 128)], 64 * 128),
        (jnp.vdot, [(1000,), (1000,)], 1000),
        (jnp.dot, [(10**6,), (10**6,)], 10**6),
        (lambda a: jnp.dot(a, a), [(4096,)], 4096),
        (
            lambda a, w, b: jnp.einsum("bi,ij,bj->b", a, w, b),
            [(64, 32), (32, 16), (64, 16)],
            64 * 32 * 16 + 64 * 16,
        ),
    ],
    ids=["rows", "vdot", "dot", "with itself", "bilinear"],
)
@pytest.mark.parametrize(("dtype", "each"), [("float32", 2), ("bfloat16", 2), ("complex64", 8)])
def test_products_that_the_compiler_takes_apart_stay_products(
    cost_of, function, shapes, multiply_adds, dtype, each
):
    cost = cost_of(function, *(jnp.ones(shape, dtype) for shape in shapes)).cost
    assert cost.matrix_flops_by_type == {dtype: each * multiply_adds}
    assert cost.vector_flops == 0


def test_a_sum_of_multiplications_that_the_program_wrote_is_vector_work(cost_of):
    cost = cost_of(lambda a, b: (a * b).sum(-1), jnp.ones((64, 128)), jnp.ones((64, 128))).cost
    assert cost.matrix_flops == 0
    assert cost.vector_flops == 64 * 128 + 64 * 127


def test_a_scope_named_after_a_product_makes_no_product(cost_of):
    def within(a, b):
        with jax.named_scope("dot_general"):
            return (a * b).sum(-1)

    cost = cost_of(within, jnp.ones((64, 128)), jnp.ones((64, 128))).cost
    assert (cost.matrix_flops, cost.vector_flops) == (0, 64 * 128 + 64 * 127)


def test_a_scaled_dot(text_cost):
    try:
        found = text_cost("""ENTRY e {
          a = f8e4m3fn[4,16,256]{2,1,0} parameter(0)
          b = f8e4m3fn[4,32,256]{2,1,0} parameter(1)
          s = f8e8m0fnu[4,16,8]{2,1,0} parameter(2)
          t = f8e8m0fnu[4,32,8]{2,1,0} parameter(3)
          ROOT d = bf16[4,16,32]{2,1,0} scaled-dot(a, b, s, t), lhs_batch_dims={0}, lhs_contracting_dims={2},
            rhs_batch_dims={0}, rhs_contracting_dims={2}
        }""")
    except RuntimeError as error:
        pytest.skip(f"this XLA does not know it: {error}")
    cost = found.cost
    assert cost.executed_matrix_flops_by_type == {"float8_e4m3fn": 4 * 2 * 16 * 32 * 256}
    assert cost.bytes == 4 * ((16 + 32) * 256 + (16 + 32) * 8 + 2 * 16 * 32)
    assert cost.unmodelled == ()


PRECISION = """ENTRY e {{
  a = {type}[64,32]{{1,0}} parameter(0)
  b = {type}[32,16]{{1,0}} parameter(1)
  ROOT d = {type}[64,16]{{1,0}} dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}{said}
}}"""


@pytest.mark.parametrize(
    ("type_", "said", "left"),
    [
        ("f32", "", "default"),
        ("f32", ", operand_precision={default,default}", "default"),
        ("f32", ", operand_precision={default,high}", "high"),
        ("f32", ", operand_precision={highest,highest}", None),
        ("f32", ", algorithm=dot_f32_f32_f32", None),
        ("c64", "", "default"),
        ("bf16", "", None),
        ("f64", "", None),
    ],
)
def test_a_float32_products_precision_is_told_where_it_is_left_to_the_device(text_cost, type_, said, left):
    cost = text_cost(PRECISION.format(type=type_, said=said)).cost
    assert cost.float32_flops_by_precision == ({left: cost.matrix_flops} if left else {})
    assert cost.to_dict()["float32_flops_by_precision"] == cost.float32_flops_by_precision


WIDENED = """ENTRY e {{
  a = bf16[64,32]{{1,0}} parameter(0)
  b = bf16[32,16]{{1,0}} parameter(1)
  c = f32[64,32]{{1,0}} convert(a){named}
  d = f32[32,16]{{1,0}} convert(b){named}
  ROOT e = f32[64,16]{{1,0}} dot(c, d), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}{said}
}}"""


@pytest.mark.parametrize("asked_for", [False, True])
@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("", "default"),
        (", operand_precision={high,default}", "high"),
        (", operand_precision={highest,highest}", None),
        (", algorithm=dot_f32_f32_f32", None),
    ],
)
def test_a_float32_product_of_widened_operands_keeps_its_own_precision(text_cost, asked_for, said, left):
    named = ', metadata={op_name="jit(f)/convert_element_type"}' if asked_for else ""
    cost = text_cost(WIDENED.format(named=named, said=said)).cost
    by_precision = {left: cost.matrix_flops} if left else {}
    assert cost.matrix_flops_by_type == {"float32" if asked_for else "bfloat16": 2 * 64 * 32 * 16}
    assert cost.executed_matrix_flops_by_type == {"float32": cost.matrix_flops}
    assert cost.executed_float32_flops_by_precision == by_precision
    assert cost.float32_flops_by_precision == (by_precision if asked_for else {})


def test_what_the_program_asks_of_jax_is_in_the_module(cost_of):
    for precision, left in (("default", "default"), ("high", "high"), ("highest", None)):
        cost = cost_of(lambda a, b, at=precision: jnp.matmul(a, b, precision=at), SQUARE, SQUARE).cost
        assert cost.float32_flops_by_precision == ({left: 2 * N**3} if left else {})


def test_dense_factorisations(cost_of):
    factor = cost_of(jnp.linalg.cholesky, SQUARE).cost
    assert factor.matrix_flops == pytest.approx(N**3 / 3)
    solve = cost_of(jax.scipy.linalg.solve_triangular, SQUARE, SQUARE).cost
    assert solve.matrix_flops == N**3
    lu = cost_of(jax.scipy.linalg.lu_factor, SQUARE).cost
    assert lu.matrix_flops == pytest.approx(2 * N**3 / 3)
    qr = cost_of(jnp.linalg.qr, SQUARE).cost
    assert qr.matrix_flops == pytest.approx(4 * N**3 / 3 + 4 * N**3 / 3)


def test_dense_factorisations_in_batches_and_complex_numbers(cost_of):
    batch = jnp.ones((5, 64, 64), "complex64")
    factor = cost_of(jnp.linalg.cholesky, batch).cost
    assert factor.matrix_flops_by_type == {"complex64": pytest.approx(5 * 4 * 64**3 / 3)}


@pytest.mark.parametrize("opcode", ["cholesky", "triangular-solve"])
def test_factorisations_that_a_backend_keeps_as_opcodes(text_cost, opcode):
    text = {
        "cholesky": "ENTRY e { a = f32[3,64,64]{2,1,0} parameter(0) "
        "ROOT c = f32[3,64,64]{2,1,0} cholesky(a), lower=true }",
        "triangular-solve": "ENTRY e { a = f32[3,64,64]{2,1,0} parameter(0) b = f32[3,64,10]{2,1,0} parameter(1) "
        "ROOT c = f32[3,64,10]{2,1,0} triangular-solve(a, b), left_side=true, lower=true, unit_diagonal=false, "
        "transpose_a=NO_TRANSPOSE }",
    }[opcode]
    expected = {"cholesky": 3 * 64**3 / 3, "triangular-solve": 3 * 64 * 64 * 10}[opcode]
    cost = text_cost(text).cost
    assert cost.matrix_flops == pytest.approx(expected)
    assert cost.bytes == 3 * 64 * {"cholesky": 64 + 64, "triangular-solve": 64 + 10 + 10}[opcode] * 4


@pytest.mark.parametrize("fn", [jnp.linalg.svd, jnp.linalg.eigh])
def test_iterative_linear_algebra_is_named_as_unmodelled(cost_of, fn):
    found = cost_of(fn, jnp.ones((64, 64)))
    assert len(found.cost.unmodelled) == 1
    assert found.cost.matrix_flops == 0


def test_fourier_transforms(cost_of):
    between_complexes = cost_of(jnp.fft.fft, jnp.ones((7, 128), "complex64")).cost
    assert between_complexes.vector_flops == 7 * 5 * 128 * log2(128)
    real = cost_of(jnp.fft.rfft, jnp.ones((7, 128))).cost
    assert real.vector_flops == 7 * 2.5 * 128 * log2(128)
    back = cost_of(jnp.fft.irfft, jnp.ones((7, 65), "complex64")).cost
    assert back.vector_flops == 7 * 2.5 * 128 * log2(128)
    plane = cost_of(jnp.fft.fft2, jnp.ones((3, 32, 64), "complex64")).cost
    assert plane.vector_flops == 3 * 5 * 2048 * log2(2048)


def test_flops_agree_with_xla_on_real_products_and_convolutions(compiled, cost_of):
    def network(x, kernel, w1, w2):
        image = lax.conv_general_dilated(x, kernel, (1, 1), "SAME")
        return image.reshape(x.shape[0], -1) @ w1 @ w2

    args = (jnp.ones((4, 8, 16, 16)), jnp.ones((16, 8, 3, 3)), jnp.ones((4096, 128)), jnp.ones((128, 10)))
    analysis = compiled(network, *args).cost_analysis()
    if isinstance(analysis, list):
        analysis = analysis[0]
    assert cost_of(network, *args).cost.matrix_flops == pytest.approx(analysis["flops"], rel=0.01)
