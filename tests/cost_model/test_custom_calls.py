"""Rules for custom calls; modules of GPUs are written as HLO text in the form that XLA's passes give them."""

import json
import math

import jax
import jax.numpy as jnp
import pytest

from jaxobs.cost_model import BUILT_IN_RULES, Cost, HloDecodeError, module_cost

PRODUCT = {
    "dot_dimension_numbers": {"lhs_contracting_dimensions": ["1"], "rhs_contracting_dimensions": ["0"]},
    "alpha_real": 1,
    "beta": 0,
    "epilogue": "DEFAULT",
}


def _gemm(target, type_, *, operands="", extra="", output="bf16[64,16]{1,0}", **config):
    text = json.dumps({"operation_queue_id": "0", "gemm_backend_config": PRODUCT | config})
    return f"""ENTRY e {{
      a = {type_}[64,32]{{1,0}} parameter(0)
      b = {type_}[32,16]{{1,0}} parameter(1)
      {operands}
      ROOT c = ({output}, s8[4194304]{{0}}) custom-call(a, b{extra}), custom_call_target="{target}",
        backend_config={text}
    }}"""


@pytest.mark.parametrize("target", ["__cublas$gemm", "__cublas$lt$matmul"])
def test_a_cublas_product(text_cost, target):
    cost = text_cost(_gemm(target, "bf16")).cost
    assert cost.matrix_flops_by_type == {"bfloat16": 2 * 64 * 32 * 16}
    assert cost.bytes == 2 * (64 * 32 + 32 * 16 + 64 * 16)  # the workspace is no traffic
    assert cost.unmodelled == ()


def test_a_cublas_product_of_fp8(text_cost):
    scales = "s = f32[] parameter(2) t = f32[] parameter(3)"
    cost = text_cost(_gemm("__cublas$lt$matmul$f8", "f8e4m3fn", operands=scales, extra=", s, t")).cost
    assert cost.matrix_flops_by_type == {"float8_e4m3fn": 2 * 64 * 32 * 16}
    assert cost.bytes == 64 * 32 + 32 * 16 + 2 * 64 * 16 + 8


@pytest.mark.parametrize(
    ("right", "contracted", "groups", "result"),
    [("3,32,16", ["1"], {"rhs_group_dimensions": ["0"]}, "64,16"), ("32,16", ["0"], {}, "3,64,16")],
)
def test_a_grouped_product_of_hipblaslt_meets_each_row_with_one_group(
    text_cost, right, contracted, groups, result
):
    left = "64,32" if groups else "32,64"
    dot = {"lhs_contracting_dimensions": contracted, "rhs_contracting_dimensions": contracted}
    ragged = {"dot_dimension_numbers": dot, "lhs_ragged_dimensions": ["0"], **groups}
    config = {"gemm_backend_config": PRODUCT, "ragged_dot_dimension_numbers": ragged}
    cost = text_cost(f"""ENTRY e {{
      a = f16[{left}] parameter(0)
      b = f16[{right}] parameter(1)
      sizes = s32[3] parameter(2)
      ROOT c = (f16[{result}], s8[784]) custom-call(a, b, sizes), custom_call_target="__cublas$lt$groupedMatmul",
        backend_config={json.dumps({"grouped_gemm_backend_config": config})}
    }}""").cost
    assert cost.matrix_flops_by_type == {"float16": 2 * 64 * 32 * 16}
    assert cost.unmodelled == ()


def test_a_cublas_epilogue(text_cost):
    bias = "v = bf16[16]{0} parameter(2)"
    text = _gemm("__cublas$lt$matmul", "bf16", operands=bias, extra=", v", epilogue="BIAS_GELU")
    cost = text_cost(text).cost
    assert cost.matrix_flops == 2 * 64 * 32 * 16
    assert cost.vector_flops == 9 * 64 * 16
    assert cost.transcendentals == 64 * 16


@pytest.mark.parametrize(
    ("precision", "algorithm", "left"),
    [
        (["DEFAULT", "DEFAULT"], "ALG_UNSET", "default"),
        (["DEFAULT", "HIGH"], "ALG_UNSET", "default"),
        (["HIGHEST", "DEFAULT"], "ALG_UNSET", None),
        (["DEFAULT", "DEFAULT"], "ALG_DOT_TF32_TF32_F32", "tensorfloat32_x1"),
        (["DEFAULT", "DEFAULT"], "ALG_DOT_BF16_BF16_F32", "bfloat16_x1"),
        (["DEFAULT", "DEFAULT"], "ALG_DOT_F32_F32_F32", None),
        (["DEFAULT", "DEFAULT"], "ALG_DOT_BF16_BF16_F32_X3", None),
    ],
)
def test_a_cublas_product_in_float32_runs_as_its_configuration_says(text_cost, precision, algorithm, left):
    """Up to `high` cuBLAS may take TensorFloat-32; an algorithm of several passes is taken apart before the call."""
    config = {"precision_config": {"operand_precision": precision, "algorithm": algorithm}}
    cost = text_cost(_gemm("__cublas$gemm", "f32", output="f32[64,16]{1,0}", **config)).cost
    flops = 2 * 64 * 32 * 16
    assert cost.matrix_flops_by_type == {"float32": flops}
    assert cost.executed_matrix_flops_by_type == {"float32": flops}
    assert cost.float32_flops_by_precision == ({left: flops} if left else {})


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("", "default"),
        (", operand_precision={high,high}", "default"),
        (", operand_precision={highest,highest}", None),
    ],
)
def test_a_cudnn_convolution_in_float32_may_run_in_tensorfloat32_up_to_high(text_cost, said, left):
    cost = text_cost(f"""ENTRY e {{
      a = f32[2,8,8,4]{{3,2,1,0}} parameter(0)
      b = f32[3,3,4,6]{{3,2,1,0}} parameter(1)
      ROOT c = (f32[2,8,8,6]{{3,2,1,0}}, u8[1024]{{0}}) custom-call(a, b), custom_call_target="__cudnn$convForward",
        window={{size=3x3 pad=1_1x1_1}}, dim_labels=b01f_01io->b01f{said}
    }}""").cost
    assert cost.float32_flops_by_precision == ({left: cost.matrix_flops} if left else {})


@pytest.mark.parametrize(
    "target",
    ["__cub$DeviceRadixSort", "__cub$DeviceRadixSortUnassignedScratchSize", "xla.gpu.ext.cub_sort_pairs"],
)
def test_the_scratch_of_a_sort_is_no_traffic(text_cost, target):
    cost = text_cost(f"""ENTRY e {{
      keys = f32[1000]{{0}} parameter(0)
      values = s32[1000]{{0}} parameter(1)
      ROOT sorted = (f32[1000]{{0}}, s32[1000]{{0}}, u8[5000]{{0}}) custom-call(keys, values),
        custom_call_target="{target}"
    }}""").cost
    assert cost.bytes == 2 * 8 * 1000
    assert cost.unmodelled == ()


@pytest.mark.parametrize(("type_", "additions"), [("f32", 4 * 99), ("s32", 0)])
def test_running_sums_of_a_library_are_one_addition_less_than_each_row_has_elements(
    text_cost, type_, additions
):
    """In the form that XLA for GPUs gives to ``jnp.cumsum`` from JAX 0.12 on."""
    cost = text_cost(f"""ENTRY e {{
      rows = {type_}[4,100]{{1,0}} parameter(0)
      ROOT sums = ({type_}[4,100]{{1,0}}, u8[5000]{{0}}) custom-call(rows), custom_call_target="xla.gpu.ext.cub_scan",
        backend_config="{{vector_length = 1 : i64, row_length = 100 : i64, column_length = 4 : i64, kind = 1 : i32}}"
    }}""").cost
    assert (cost.vector_flops, cost.bytes) == (additions, 2 * 4 * 400)
    assert cost.unmodelled == ()


def test_a_sort_of_bytes_without_scratch_writes_them(text_cost):
    cost = text_cost("""ENTRY e {
      keys = u8[1000]{0} parameter(0)
      ROOT sorted = u8[1000]{0} custom-call(keys), custom_call_target="__cub$DeviceRadixSort"
    }""").cost
    assert cost.bytes == 2000


@pytest.mark.parametrize(
    ("target", "operands", "result"),
    [
        ("__cudnn$convForward", ("2,8,8,4", "3,3,4,6"), "2,8,8,6"),
        ("__cudnn$convBackwardInput", ("2,8,8,6", "3,3,4,6"), "2,8,8,4"),
        ("__cudnn$convBackwardFilter", ("2,8,8,4", "2,8,8,6"), "3,3,4,6"),
    ],
)
def test_a_cudnn_convolution_and_its_gradients_have_one_cost(text_cost, target, operands, result):
    cost = text_cost(f"""ENTRY e {{
      a = f16[{operands[0]}]{{3,2,1,0}} parameter(0)
      b = f16[{operands[1]}]{{3,2,1,0}} parameter(1)
      ROOT c = (f16[{result}]{{3,2,1,0}}, u8[1024]{{0}}) custom-call(a, b), custom_call_target="{target}",
        window={{size=3x3 pad=1_1x1_1}}, dim_labels=b01f_01io->b01f
    }}""").cost
    valid = (3 * 8 - 2) ** 2  # rows and columns of the padding are no elements
    assert cost.matrix_flops_by_type == {"float16": 2 * 2 * 4 * 6 * valid}
    assert cost.bytes == 2 * (2 * 8 * 8 * 4 + 3 * 3 * 4 * 6 + 2 * 8 * 8 * 6)


def test_a_pallas_kernels_estimate_is_taken_where_it_is_there(text_cost):
    estimate = {"cost_estimate": {"flops": 1000, "transcendentals": 10, "bytes_accessed": 512}}
    text = """ENTRY e {{
      a = bf16[64]{{0}} parameter(0)
      ROOT c = bf16[64]{{0}} custom-call(a), custom_call_target="tpu_custom_call", backend_config={config}
    }}"""
    known = text_cost(text.format(config=json.dumps({"custom_call_config": estimate}))).cost
    assert known.matrix_flops_by_type == {"bfloat16": 1000}
    assert (known.bytes, known.transcendentals) == (512, 10)
    unknown = text_cost(text.format(config=json.dumps({"custom_call_config": {}}))).cost
    assert unknown.unmodelled == ("tpu_custom_call",)


TAKES_A_LAYER = """layers = f32[10,32,16]{2,1,0} parameter(0)
      place = s32[] parameter(1)
      zero = s32[] constant(0)
      taken = f32[1,32,16]{2,1,0} dynamic-slice(layers, place, zero, zero), dynamic_slice_sizes={1,32,16}
      weight = f32[32,16]{1,0} bitcast(taken)
      x = f32[64,32]{1,0} parameter(2)"""


MOSAIC_GPU = r"""{cost_estimate_json = "{\22flops\22: 1000, \22transcendentals\22: 10, \22bytes_accessed\22: 512,
  \22remote_bytes_transferred\22: 0}", module = "a \22b\22 \\ {c}"}"""


@pytest.mark.parametrize(
    ("target", "config"),
    [
        ("mosaic_gpu_v2", MOSAIC_GPU),
        (
            "a_kernel",
            json.dumps({"cost_estimate": {"flops": 1000, "transcendentals": 10, "bytes_accessed": 512}}),
        ),
    ],
)
def test_the_estimate_of_any_kernel_is_taken(text_cost, target, config):
    """Mosaic GPU's is a string among the attributes of MLIR, as JAX 0.12 writes it."""
    cost = text_cost(f"""ENTRY e {{
      a = bf16[64]{{0}} parameter(0)
      ROOT c = bf16[64]{{0}} custom-call(a), custom_call_target="{target}", api_version=API_VERSION_TYPED_FFI,
        backend_config={config}
    }}""").cost
    assert cost.matrix_flops_by_type == {"bfloat16": 1000}
    assert (cost.bytes, cost.transcendentals, cost.unmodelled) == (512, 10, ())
    assert cost.inexact_reasons == (f"{target} is counted by its author's estimate",)


def test_a_product_inside_a_fusion_counts_and_moves_what_crosses_the_fusions_edge(text_cost):
    """XLA wraps a slice, a library's product and an update into one fusion, to save the copies."""
    config = json.dumps({"gemm_backend_config": PRODUCT})
    found = text_cost(f"""
    f {{
      {TAKES_A_LAYER}
      ROOT c = f32[64,16]{{1,0}} custom-call(x, weight), custom_call_target="__cublas$gemm", backend_config={config}
    }}
    ENTRY e {{
      layers = f32[10,32,16]{{2,1,0}} parameter(0)
      place = s32[] parameter(1)
      x = f32[64,32]{{1,0}} parameter(2)
      ROOT r = f32[64,16]{{1,0}} fusion(layers, place, x), kind=kCustom, calls=f
    }}""")
    assert found.cost.matrix_flops == 2 * 64 * 32 * 16
    assert found.cost.bytes == 4 * (32 * 16 + 1 + 64 * 32 + 64 * 16)


@pytest.mark.parametrize("taken_out", [False, True])
def test_the_workspace_of_a_product_inside_a_fusion_is_no_traffic(text_cost, taken_out):
    config = json.dumps({"gemm_backend_config": PRODUCT})
    both = "(f32[64,16]{1,0}, s8[4194304]{0})"
    call = f"""custom-call(x, weight), custom_call_target="__cublas$gemm", backend_config={config}"""
    ends = {
        False: f"ROOT c = {both} {call}",
        True: f"""c = {both} {call}
          product = f32[64,16]{{1,0}} get-tuple-element(c), index=0
          scratch = s8[4194304]{{0}} get-tuple-element(c), index=1
          ROOT t = {both} tuple(product, scratch)""",
    }
    found = text_cost(f"""
    f {{
      {TAKES_A_LAYER}
      {ends[taken_out]}
    }}
    ENTRY e {{
      layers = f32[10,32,16]{{2,1,0}} parameter(0)
      place = s32[] parameter(1)
      x = f32[64,32]{{1,0}} parameter(2)
      r = {both} fusion(layers, place, x), kind=kCustom, calls=f
      ROOT p = f32[64,16]{{1,0}} get-tuple-element(r), index=0
    }}""")
    assert found.cost.matrix_flops == 2 * 64 * 32 * 16
    assert found.cost.bytes == 4 * (32 * 16 + 1 + 64 * 32 + 64 * 16)


def test_the_workspace_of_a_fusion_for_cudnn_is_no_traffic_and_no_work(text_cost):
    """In the form of XLA's own test of the compiler of such fusions."""
    both = "(f32[32,64], s8[33554688]{0})"
    found = text_cost(f"""f {{
      a = f32[32,96] parameter(0)
      b = f32[96,64] parameter(1)
      d = f32[32,64] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
      c = s8[33554688] custom-call(), custom_call_target="__nop"
      ROOT t = {both} tuple(d, c)
    }}
    ENTRY e {{
      a = f32[32,96] parameter(0)
      b = f32[96,64] parameter(1)
      r = {both} fusion(a, b), kind=kCustom, calls=f,
        backend_config={{"fusion_backend_config":{{"kind":"__cudnn$fusion"}}}}
      ROOT g = f32[32,64] get-tuple-element(r), index=0
    }}""")
    assert found.cost.bytes == 4 * (32 * 96 + 96 * 64 + 32 * 64)
    assert found.cost.exact


CALL = 'ENTRY e { a = f32[64]{0} parameter(0) ROOT c = f32[64]{0} custom-call(a), custom_call_target="mine" }'


def test_a_target_without_a_rule_is_named_and_its_bytes_are_counted(text_cost):
    cost = text_cost(CALL).cost
    assert cost.unmodelled == ("mine",)
    assert cost.bytes == 512
    assert not cost.exact


def test_anyones_rule_is_used_for_its_target(text_proto):
    rules = {**BUILT_IN_RULES, "mine": lambda call: call.matrix(1e6, vector_flops_by_type={"float32": 3.0})}
    cost = module_cost(text_proto(CALL), custom_call_rules=rules).cost
    assert (cost.matrix_flops, cost.vector_flops, cost.bytes) == (1e6, 3, 512)
    assert cost.unmodelled == ()


def _raising(error):
    def rule(call):
        raise type(error)(
            *error.args
        )  # a new one: the parameter would keep this frame, and the module, alive

    return rule


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        (_raising(RuntimeError("broken rule")), "RuntimeError: broken rule"),
        (_raising(HloDecodeError("not mine")), "HloDecodeError: not mine"),
        (_raising(SystemExit("bye")), "SystemExit: bye"),
        (lambda call: call.operands[7], "IndexError"),
        (lambda call: 1e9, "it returned a float, not a Cost or None"),
        (lambda call: Cost(bytes=float("nan")), "it returned a cost of nan"),
        (lambda call: call.matrix(-1.0), "it returned a cost of -1.0"),
    ],
)
def test_a_rule_that_fails_leaves_its_target_unmodelled_and_says_why(text_proto, rule, reason):
    cost = module_cost(text_proto(CALL), custom_call_rules={"mine": rule}).cost
    assert cost.unmodelled == ("mine",)
    assert cost.bytes == 512
    (said,) = cost.inexact_reasons
    assert "custom call mine" in said
    assert reason in said


def test_a_rule_that_declines_leaves_its_target_unmodelled(text_proto):
    cost = module_cost(text_proto(CALL), custom_call_rules={"mine": lambda call: None}).cost
    assert cost.unmodelled == ("mine",)
    assert cost.inexact_reasons == ()


def test_an_interrupt_during_a_rule_is_the_users(text_proto):
    with pytest.raises(KeyboardInterrupt):
        module_cost(text_proto(CALL), custom_call_rules={"mine": _raising(KeyboardInterrupt())})


def test_callbacks_are_unmodelled(cost_of):
    def called(x):
        return jax.pure_callback(lambda y: y, jax.ShapeDtypeStruct((4,), jnp.float32), x)

    (target,) = cost_of(called, jnp.ones(4)).cost.unmodelled
    assert "callback" in target


def test_selection_is_no_arithmetic(cost_of):
    cost = cost_of(lambda x: jax.lax.top_k(x, 5), jnp.ones((64, 64))).cost
    assert cost.flops == 0
    assert cost.bytes == 64 * 64 * 4 + 64 * 5 * 8
    assert cost.unmodelled == ()


@pytest.mark.parametrize("target", ["hip_threefry2x32_ffi", "cu_threefry2x32_ffi", "GetRngSeed"])
def test_random_bits_are_no_arithmetic(text_cost, target):
    cost = text_cost(CALL.replace('"mine"', f'"{target}"')).cost
    assert (cost.flops, cost.unmodelled) == (0, ())


def test_the_workspace_of_an_integer_product_is_no_traffic(text_cost):
    cost = text_cost(_gemm("__cublas$lt$matmul", "s8", output="s32[64,16]{1,0}")).cost
    assert cost.matrix_flops == 0
    assert cost.bytes == 64 * 32 + 32 * 16 + 4 * 64 * 16
    assert cost.unmodelled == ("__cublas$lt$matmul",)


def test_the_pointers_that_a_stack_of_triangular_solves_needs_are_no_traffic(text_cost):
    cost = text_cost("""ENTRY e {
      a = f32[3,8,8]{2,1,0} parameter(0)
      b = f32[3,8,2]{2,1,0} parameter(1)
      ROOT x = (f32[3,8,2]{2,1,0}, s8[48]{0}) custom-call(a, b), custom_call_target="__cublas$triangularSolve"
    }""").cost
    assert (cost.flops, cost.bytes) == (3 * 8**2 * 2, 4 * 3 * (8 * 8 + 2 * 8 * 2))


@pytest.mark.parametrize("stack", [(), (10,), (2, 3)])
def test_tridiagonal_systems_are_counted_one_by_one(text_cost, stack):
    def shape(*last):
        return "f32[" + ",".join(map(str, (*stack, *last))) + "]"

    diagonal, right = shape(100), shape(100, 8)
    found = text_cost(f"""ENTRY e {{
      l = {diagonal} parameter(0)
      d = {diagonal} parameter(1)
      u = {diagonal} parameter(2)
      b = {right} parameter(3)
      ROOT x = ({diagonal}, {diagonal}, {diagonal}, {right}) custom-call(l, d, u, b),
        custom_call_target="lapack_sgtsv_ffi"
    }}""")
    assert found.cost.flops == math.prod(stack) * (3 * 99 + (5 * 100 - 4) * 8)


@pytest.mark.parametrize(
    "target",
    [
        "PrepareAsyncCallStart", "PrepareAsyncCallDone", "Noop", "AssumeGatherIndicesInBound", "MoveToHost",
        "MoveToDevice", "ShardBarrierFrom", "ShardBarrierTo", "xla.sdy.FuncResultSharding",
        "xla.sdy.GlobalToLocalShape", "Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape",
    ],
)  # fmt: skip
def test_a_call_that_only_tells_the_compiler_something_is_no_work(text_cost, target):
    cost = text_cost(CALL.replace('"mine"', f'"{target}"')).cost
    assert cost == Cost()


def _block_scaled(target, batch="4,", result="f32[4,16,32]{2,1,0}", left="f8e4m3fn", right="f8e4m3fn"):
    return f"""ENTRY e {{
      a = {left}[{batch}16,256] parameter(0)
      b = {right}[{batch}32,256] parameter(1)
      s = f8e8m0fnu[{batch}16,8] parameter(2)
      t = f8e8m0fnu[{batch}32,8] parameter(3)
      ROOT c = {result} custom-call(a, b, s, t), custom_call_target="{target}"
    }}"""


@pytest.mark.parametrize(
    "target", ["__op$block_scaled_dot", "__cudnn$blockScaledDot", "__cublas$lt$matmul$mx"]
)
@pytest.mark.parametrize(("batch", "times"), [("4,", 4), ("", 1)])
def test_a_block_scaled_product(text_cost, target, batch, times):
    """In the form of XLA's own tests of the pass that rewrites it."""
    product = f"f32[{batch}16,32]"
    result = product if target.startswith("__op") else f"({product}, u8[4096]{{0}})"
    cost = text_cost(_block_scaled(target, batch, result)).cost
    flops = times * 2 * 16 * 32 * 256
    assert cost.matrix_flops_by_type == cost.executed_matrix_flops_by_type == {"float8_e4m3fn": flops}
    assert cost.bytes == times * ((16 + 32) * 256 + (16 + 32) * 8 + 4 * 16 * 32)
    assert cost.exact
    assert cost.unmodelled == ()


def test_a_block_scaled_product_of_two_types_runs_in_the_wider(text_cost):
    cost = text_cost(_block_scaled("__op$block_scaled_dot", left="f4e2m1fn", right="f8e5m2")).cost
    assert cost.executed_matrix_flops_by_type == {"float8_e5m2": 4 * 2 * 16 * 32 * 256}
