"""Bytes over the links, by kind of collective and size of its groups."""

import pytest

from jaxobs.cost_model import module_cost

SHARD, WHOLE = 2048, 16384  # bytes of one device's rows, and of all 8 devices'


def _sent(collective_protos, name):
    return module_cost(collective_protos[name]).cost.collective_bytes


def test_compiled_collectives_apply_their_algorithms_factor(collective_protos):
    assert _sent(collective_protos, "data parallel") == {"all-reduce": 2 * 7 / 8 * WHOLE}
    assert _sent(collective_protos, "all-gather") == {"all-gather": 7 / 8 * WHOLE}
    assert _sent(collective_protos, "reduce-scatter") == {"reduce-scatter": 7 / 8 * SHARD}
    assert _sent(collective_protos, "all-to-all") == {"all-to-all": 7 / 8 * SHARD}
    assert _sent(collective_protos, "collective-permute") == {"collective-permute": SHARD}


def test_the_group_is_the_row_of_the_mesh_not_all_devices(collective_protos):
    found = module_cost(collective_protos["all-reduce of a row of four"])
    assert found.cost.collective_bytes == {"all-reduce": 2 * 3 / 4 * SHARD}
    assert found.cost.exact


def test_a_partitioned_program_costs_what_one_device_does(collective_protos):
    cost = module_cost(collective_protos["data parallel"]).cost
    # Forward and weight gradient of 128 / 8 rows through a 64 × 64 weight.
    assert cost.matrix_flops == 2 * 2 * 16 * 64 * 64


@pytest.mark.parametrize(
    ("groups", "members"),
    [
        ("replica_groups={{0,1,2,3}}", 4),
        ("replica_groups={{0,1},{2,3}}", 2),
        ("replica_groups=[2,4]<=[8]", 4),
        ("replica_groups=[4,2]<=[2,4]T(1,0)", 2),
    ],
)
def test_group_sizes_in_every_notation(text_cost, groups, members):
    found = text_cost(f"""
    add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }}
    ENTRY e {{
      x = f32[256]{{0}} parameter(0)
      ROOT r = f32[256]{{0}} all-reduce(x), {groups}, to_apply=add
    }}""")
    assert found.cost.collective_bytes == {"all-reduce": pytest.approx(2 * (members - 1) / members * 1024)}
    assert found.cost.vector_flops == pytest.approx(256 * (members - 1) / members)


def test_what_is_sent_does_not_depend_on_where_the_operand_lies(text_cost):
    """XLA for TPUs keeps operands in the core's own memory (S(1)); these bytes are not those of device memory."""
    found = text_cost("""
    add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
    ENTRY e {
      x = f32[1024,1024]{1,0:T(8,128)S(1)} parameter(0)
      ROOT r = f32[1024,1024]{1,0:T(8,128)} all-reduce(x), replica_groups=[1,8]<=[8], to_apply=add
    }""")
    assert found.cost.collective_bytes == {"all-reduce": 2 * 7 / 8 * 4 * 1024**2}
    assert found.cost.bytes == 4 * 1024**2


def test_unknown_groups_are_a_lower_bound_with_a_reason(text_cost):
    found = text_cost("""
    add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
    ENTRY e { x = f32[256]{0} parameter(0) ROOT r = f32[256]{0} all-reduce(x), replica_groups={}, to_apply=add }
    """)
    assert found.cost.collective_bytes == {"all-reduce": 1024}
    assert not found.cost.exact
    assert "group of two" in found.cost.inexact_reasons[0]
    # What one module's cost notes is in no other's.
    assert text_cost("ENTRY e { x = f32[4]{0} parameter(0) ROOT n = f32[4]{0} sine(x) }").cost.exact


def test_asynchronous_pairs_count_once(text_cost):
    found = text_cost("""
    add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
    scatter {
      p = f32[256]{0} parameter(0)
      ROOT r = f32[64]{0} reduce-scatter(p), replica_groups={{0,1,2,3}}, dimensions={0}, to_apply=add
    }
    ENTRY e {
      x = f32[256]{0} parameter(0)
      rs = f32[256]{0} all-reduce-start(x), replica_groups={{0,1,2,3}}, to_apply=add
      rd = f32[256]{0} all-reduce-done(rs)
      gs = (f32[256]{0}, f32[1024]{0}) all-gather-start(x), replica_groups={{0,1,2,3}}, dimensions={0}
      gd = f32[1024]{0} all-gather-done(gs)
      ps = (f32[256]{0}, f32[256]{0}, u32[], u32[]) collective-permute-start(x), source_target_pairs={{0,1},{1,0}}
      pd = f32[256]{0} collective-permute-done(ps)
      as = ((f32[256]{0}), f32[64]{0}) async-start(x), calls=scatter
      ad = f32[64]{0} async-done(as)
      ROOT t = (f32[256]{0}, f32[1024]{0}, f32[256]{0}, f32[64]{0}) tuple(rd, gd, pd, ad)
    }""")
    assert found.cost.collective_bytes == {
        "all-reduce": 1.5 * 1024,
        "all-gather": 0.75 * 4096,
        "collective-permute": 1024,
        "reduce-scatter": 0.75 * 1024,
    }
    assert found.cost.bytes == 2 * 1024 + (1024 + 4096) + 2 * 1024 + (1024 + 256)


def test_a_pair_of_devices_sends_and_receives(text_cost):
    found = text_cost("""ENTRY e {
      x = f32[256]{0} parameter(0)
      t = token[] after-all()
      s = (f32[256]{0}, u32[], token[]) send(x, t), channel_id=1
      sd = token[] send-done(s), channel_id=1
      r = (f32[256]{0}, u32[], token[]) recv(t), channel_id=1
      ROOT rd = (f32[256]{0}, token[]) recv-done(r), channel_id=1
    }""")
    assert found.cost.collective_bytes == {"send": 1024}
    assert found.cost.bytes == 2 * 1024
    assert found.cost.unmodelled == ()


def test_a_transfer_to_the_host_is_no_collective_and_is_named(text_cost):
    found = text_cost("""ENTRY e {
      x = f32[256]{0} parameter(0)
      t = token[] after-all()
      s = (f32[256]{0}, u32[], token[]) send(x, t), channel_id=1, is_host_transfer=true
      ROOT d = token[] send-done(s), channel_id=1, is_host_transfer=true
    }""")
    assert found.cost.collective_bytes == {}
    assert found.cost.unmodelled == ("send between device and host",)
    assert found.cost.bytes == 1024


def test_a_permutation_of_each_device_to_itself_sends_nothing(text_cost):
    found = text_cost("""ENTRY e {
      x = f32[256]{0} parameter(0)
      ROOT p = f32[256]{0} collective-permute(x), source_target_pairs={{0,0},{1,1}}
    }""")
    assert found.cost.collective_bytes == {"collective-permute": 0}


def test_a_reduce_scatter_written_as_a_fusion_sends_as_one(text_cost):
    """XLA for TPUs fuses an all-reduce and the slice of it that the device keeps."""
    found = text_cost("""
    add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
    fused {
      p = f32[256]{0} parameter(0)
      i = s32[] parameter(1)
      r = f32[256]{0} all-reduce(p), replica_groups={{0,1,2,3}}, to_apply=add
      ROOT s = f32[64]{0} dynamic-slice(r, i), dynamic_slice_sizes={64}
    }
    ENTRY e {
      x = f32[256]{0} parameter(0)
      i = s32[] parameter(1)
      ROOT f = f32[64]{0} fusion(x, i), kind=kCustom, calls=fused
    }""")
    assert found.cost.collective_bytes == {"reduce-scatter": 0.75 * 1024}
    assert found.cost.exact


def test_another_collective_inside_a_fusion_is_counted_and_doubted(text_cost):
    found = text_cost("""
    fused {
      p = f32[256]{0} parameter(0)
      g = f32[1024]{0} all-gather(p), replica_groups={{0,1,2,3}}, dimensions={0}
      ROOT n = f32[1024]{0} negate(g)
    }
    ENTRY e { x = f32[256]{0} parameter(0) ROOT f = f32[1024]{0} fusion(x), kind=kCustom, calls=fused }""")
    assert found.cost.collective_bytes == {"all-gather": 0.75 * 4096}
    assert "is in a fusion" in found.cost.inexact_reasons[0]


def test_a_ragged_all_to_all_does_not_read_the_array_that_it_fills(text_cost):
    found = text_cost("""ENTRY e {
      x = f32[256]{0} parameter(0)
      filled = f32[512]{0} parameter(1)
      n = s32[4]{0} parameter(2)
      ROOT r = f32[512]{0} ragged-all-to-all(x, filled, n, n, n, n), replica_groups={{0,1,2,3}}
    }""")
    assert found.cost.bytes == 1024 + 4 * 16 + 2048
    assert found.cost.collective_bytes == {"ragged-all-to-all": 0.75 * 1024}
