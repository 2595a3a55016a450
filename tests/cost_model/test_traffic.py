"""Bytes that cross the boundary of device memory."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

TABLE = jnp.ones((100_000, 128))
ROWS = jnp.arange(16)
ROW_BYTES = 128 * 4


def test_a_gather_reads_the_rows_it_takes(cost_of):
    cost = cost_of(lambda table, rows: table[rows], TABLE, ROWS).cost
    assert cost.bytes == 2 * 16 * ROW_BYTES + 16 * 4


def test_a_slice_reads_what_it_takes_also_inside_a_fusion(cost_of):
    cost = cost_of(lambda table: jnp.sin(table[100:110]) * 2, TABLE).cost
    assert cost.bytes == pytest.approx(2 * 10 * ROW_BYTES, rel=0.01)


def test_elementwise_work_before_a_slice_reads_only_the_slice(text_cost):
    found = text_cost("""
    f {
      p = f32[1000,128]{1,0} parameter(0)
      q = f32[1000,128]{1,0} parameter(1)
      m = f32[1000,128]{1,0} multiply(p, q)
      a = f32[1000,128]{1,0} add(m, p)
      ROOT s = f32[10,128]{1,0} slice(a), slice={[0:10], [0:128]}
    }
    ENTRY e {
      x = f32[1000,128]{1,0} parameter(0)
      y = f32[1000,128]{1,0} parameter(1)
      ROOT r = f32[10,128]{1,0} fusion(x, y), kind=kLoop, calls=f
    }""")
    assert found.cost.bytes == 3 * 10 * ROW_BYTES


def test_fusions_within_fusions_are_followed(text_cost):
    found = text_cost("""
    inner { p = f32[64,64]{1,0} parameter(0) ROOT s = f32[64,64]{1,0} sine(p) }
    outer {
      p = f32[64,64]{1,0} parameter(0)
      q = f32[64,64]{1,0} parameter(1)
      s = f32[64,64]{1,0} fusion(p), kind=kLoop, calls=inner
      ROOT d = f32[64,64]{1,0} dot(s, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    }
    ENTRY e {
      x = f32[64,64]{1,0} parameter(0)
      y = f32[64,64]{1,0} parameter(1)
      ROOT r = f32[64,64]{1,0} fusion(x, y), kind=kCustom, calls=outer
    }""")
    assert found.cost.matrix_flops == 2 * 64**3
    assert found.cost.transcendentals == 64 * 64
    assert found.cost.bytes == 3 * 64 * 64 * 4


def test_two_slices_of_one_input_add_up(text_cost):
    found = text_cost("""
    f {
      p = f32[1000,128]{1,0} parameter(0)
      s = f32[10,128]{1,0} slice(p), slice={[0:10], [0:128]}
      t = f32[10,128]{1,0} slice(p), slice={[20:30], [0:128]}
      ROOT a = f32[10,128]{1,0} add(s, t)
    }
    ENTRY e {
      x = f32[1000,128]{1,0} parameter(0)
      ROOT r = f32[10,128]{1,0} fusion(x), kind=kLoop, calls=f
    }""")
    assert found.cost.bytes == 3 * 10 * ROW_BYTES


def test_slices_that_overlap_are_read_once(cost_of):
    def stencil(x):
        return x[1:50] + x[0:49] + x[2:51] + x[3:52]

    def from_both_ends(x):
        return x[:10] + x[-10:]

    assert cost_of(stencil, TABLE).cost.bytes == (52 + 49) * ROW_BYTES
    assert cost_of(from_both_ends, TABLE).cost.bytes == 3 * 10 * ROW_BYTES
    assert cost_of(lambda x: x[:10, :64] + x[5:15, 64:], TABLE).cost.bytes == pytest.approx(
        1.5 * 10 * ROW_BYTES
    )


def test_a_value_used_twice_in_a_fusion_is_read_once(cost_of):
    cost = cost_of(lambda x: x * x + jnp.sin(x), jnp.ones((1000, 128))).cost
    assert cost.bytes == 2 * 1000 * ROW_BYTES


def test_one_buffer_under_two_names_is_read_once(text_cost):
    found = text_cost("""ENTRY e {
      x = f32[64,64]{1,0} parameter(0)
      b = f32[64,64]{1,0} bitcast(x)
      ROOT d = f32[64,64]{1,0} dot(x, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    }""")
    assert found.cost.bytes == 2 * 64 * 64 * 4


def test_a_donated_update_moves_only_the_update(cost_of):
    cost = cost_of(lambda t, row: t.at[3].set(row), TABLE, jnp.ones(128), donate_argnums=0).cost
    assert cost.bytes == pytest.approx(2 * ROW_BYTES, rel=0.05)


def test_an_update_without_donation_copies_the_array(cost_of):
    cost = cost_of(lambda t, row: t.at[3].set(row), TABLE, jnp.ones(128)).cost
    assert cost.bytes == pytest.approx(2 * TABLE.nbytes, rel=0.01)


def test_a_donated_scatter_add_touches_its_rows_three_times(cost_of):
    cost = cost_of(lambda t, i, g: t.at[i].add(g), TABLE, ROWS, jnp.ones((16, 128)), donate_argnums=0).cost
    assert cost.bytes == pytest.approx(3 * 16 * ROW_BYTES, rel=0.02)
    assert cost.vector_flops == 16 * 128


SMALL, MANY = jnp.ones((64, 128)), jnp.zeros(10_000, jnp.int32)


def test_a_scatter_with_more_updates_than_the_array_has_rows_touches_the_array_once(cost_of):
    """As `segment_sum` over the edges of a graph does, and the gradient of an embedding of few tokens."""
    updates = jnp.ones((10_000, 128))
    cost = cost_of(lambda t, i, g: t.at[i].add(g), SMALL, MANY, updates, donate_argnums=0).cost
    assert cost.bytes == pytest.approx(updates.nbytes + 2 * SMALL.nbytes + MANY.nbytes, rel=0.05)


SCATTER = """
  add { p = f32[] parameter(0) q = f32[] parameter(1) ROOT a = f32[] add(p, q) }
  ENTRY e {
    t = f32[64,128]{1,0} parameter(0)
    i = s32[10000,1]{1,0} parameter(1)
    u = f32[10000,128]{1,0} parameter(2)
    ROOT s = f32[64,128]{1,0} scatter(t, i, u), to_apply=add,
      update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1
  }"""

GATHER = """
  ENTRY e {
    t = f32[64,128]{1,0} parameter(0)
    i = s32[10000,1]{1,0} parameter(1)
    ROOT g = f32[10000,128]{1,0} gather(t, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
      index_vector_dim=1, slice_sizes={1,128}
  }"""


@pytest.mark.parametrize(("text", "touched"), [(SCATTER, 2), (GATHER, 1)])
def test_an_element_met_many_times_counts_once_outside_of_fusions_too(text_cost, text, touched):
    assert text_cost(text).cost.bytes == 10_000 * (ROW_BYTES + 4) + touched * SMALL.nbytes


def test_a_scan_over_stacked_inputs_reads_each_slice_once(cost_of):
    def total(start, rows):
        return lax.scan(lambda carry, row: (carry + row, None), start, rows)[0]

    cost = cost_of(total, jnp.ones(10_000), jnp.ones((50, 10_000))).cost
    assert cost.bytes == pytest.approx(3 * 50 * 40_000, rel=0.1)


def test_stacked_outputs_of_a_scan_are_written_in_place(cost_of):
    def stack(start):
        return lax.scan(lambda carry, _: (carry, carry * 1.5), start, None, length=50)[1]

    cost = cost_of(stack, jnp.ones(10_000)).cost
    # Each step reads the carry and writes a row; before them the result is filled with zeros.
    assert cost.bytes <= 50 * 40_000 * 5


def test_packed_and_unpacked_narrow_types(text_cost):
    packed = text_cost("ENTRY e { a = s4[64]{0:E(4)} parameter(0) ROOT n = s4[64]{0:E(4)} negate(a) }")
    whole = text_cost("ENTRY e { a = s8[64]{0} parameter(0) ROOT n = s8[64]{0} negate(a) }")
    assert packed.cost.bytes == 2 * 32
    assert whole.cost.bytes == 2 * 64


def test_buffers_in_host_memory_and_on_the_chip_are_not_device_memory(text_cost):
    host = text_cost("ENTRY e { a = f32[64]{0:S(5)} parameter(0) ROOT n = f32[64]{0} copy(a) }")
    chip = text_cost("ENTRY e { a = f32[64]{0:T(128)S(1)} parameter(0) ROOT n = f32[64]{0:T(128)} copy(a) }")
    collective = text_cost("ENTRY e { a = f32[64]{0:S(1)} parameter(0) ROOT n = f32[64]{0} copy(a) }")
    assert host.cost.bytes == 256
    assert chip.cost.bytes == 256
    assert collective.cost.bytes == 512


def test_what_is_stored_in_host_memory_is_only_read_on_the_device(text_cost):
    found = text_cost("""ENTRY e {
      saved = f32[10,64]{1,0:S(5)} parameter(0)
      one = f32[1,64]{1,0} parameter(1)
      at = s32[] parameter(2)
      ROOT all = f32[10,64]{1,0:S(5)} dynamic-update-slice(saved, one, at, at)
    }""")
    assert found.cost.bytes == 256 + 4


def test_a_dynamic_size_counts_at_its_bound_and_says_so(text_cost):
    found = text_cost("ENTRY e { a = f32[<=64]{0} parameter(0) ROOT n = f32[<=64]{0} sine(a) }")
    assert found.cost.transcendentals == 64
    assert not found.cost.exact
    assert "run time" in found.cost.inexact_reasons[0]


def test_renaming_costs_nothing(text_cost):
    found = text_cost("""ENTRY e {
      a = f32[64,64]{1,0} parameter(0)
      b = f32[4096]{0} bitcast(a)
      t = (f32[4096]{0}, f32[64,64]{1,0}) tuple(b, a)
      ROOT g = f32[4096]{0} get-tuple-element(t), index=0
    }""")
    assert found.cost.bytes == 0
    assert found.operations == ()


def test_one_value_is_read_once_whatever_its_names_behind_a_barrier(text_cost):
    found = text_cost("""ENTRY e {
      a = f32[64]{0} parameter(0)
      t = (f32[64]{0}, f32[64]{0}) tuple(a, a)
      b = (f32[64]{0}, f32[64]{0}) opt-barrier(t)
      x = f32[64]{0} get-tuple-element(b), index=0
      y = f32[64]{0} get-tuple-element(b), index=1
      ROOT s = f32[64]{0} add(x, y)
    }""")
    assert found.cost.bytes == 2 * 64 * 4


def test_a_constant_counts_where_it_is_read(cost_of):
    weights = jnp.arange(64.0 * 64).reshape(64, 64)
    cost = cost_of(lambda x: x @ jax.lax.stop_gradient(weights), jnp.ones((8, 64))).cost
    assert cost.bytes == pytest.approx(64 * 64 * 4 + 2 * 8 * 64 * 4, rel=0.02)


def test_an_asynchronous_copy_counts_once(text_cost):
    found = text_cost("""ENTRY e {
      a = f32[64]{0} parameter(0)
      s = (f32[64]{0}, f32[64]{0}, u32[]) copy-start(a)
      ROOT d = f32[64]{0} copy-done(s)
    }""")
    assert found.cost.bytes == 512
    assert [operation.opcode for operation in found.operations] == ["copy-start"]


NESTED = """
inner {{
  table = f32[100,64]{{1,0}} parameter(0)
  row = f32[1,64]{{1,0}} slice(table), slice={{[{row}:{after}],[0:64]}}
  ROOT doubled = f32[1,64]{{1,0}} add(row, row)
}}
outer {{
  table = f32[100,64]{{1,0}} parameter(0)
  q = f32[1,64]{{1,0}} fusion(table), kind=kLoop, calls=inner
  {end}
}}
ENTRY e {{
  table = f32[100,64]{{1,0}} parameter(0)
  ROOT r = {shape}{{1,0}} fusion(table), kind=kLoop, calls=outer
}}"""


@pytest.mark.parametrize(
    ("shape", "end", "expected"),
    [
        ("f32[1,64]", "ROOT d = f32[1,64]{1,0} multiply(q, q)", 4 * (64 + 64)),
        ("f32[1,16]", "ROOT d = f32[1,16]{1,0} slice(q), slice={[0:1],[0:16]}", 4 * (16 + 16)),
    ],
)
def test_a_fusion_inside_a_fusion_reads_what_it_takes(text_cost, shape, end, expected):
    text = NESTED.format(row=3, after=4, shape=shape, end=end)
    assert text_cost(text).cost.bytes == expected


def test_what_the_host_runs_is_no_work_of_the_device(text_cost):
    cost = text_cost("""
    k {
      x = f32[64,64]{1,0} parameter(0)
      ROOT d = f32[64,64]{1,0} dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    }, execution_thread="host"

    ENTRY e {
      x = f32[64,64]{1,0} parameter(0)
      s = ((f32[64,64]{1,0}), f32[64,64]{1,0}, s32[]) call-start(x), async_execution_thread="host", to_apply=k
      b = f32[64,64]{1,0} call-done(s)
      ROOT c = f32[64,64]{1,0} add(b, x)
    }""")
    assert cost.cost.flops == 64 * 64
    assert cost.cost.bytes == 3 * 4 * 64 * 64
    assert cost.cost.unmodelled == ("computation on the host",)
    (named,) = (operation for operation in cost.operations if operation.once.unmodelled)
    assert named.opcode == "async-start"
