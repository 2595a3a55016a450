"""Costs by operation: names, scopes, source lines."""

import inspect

import flax.linen as nn
import jax
import jax.numpy as jnp
import pytest

from jaxobs.cost_model.hlo.instructions import Module
from jaxobs.cost_model.hlo.scopes import MAX_CALLS, Provenance, scope_of
from jaxobs.model.source_files import is_installed
from jaxobs.proto.messages import ModuleMessage


@pytest.mark.parametrize(
    ("operation_name", "scope"),
    [
        ("jit(step)/decoder/attention/dot_general", "decoder/attention"),
        ("jit(step)/transpose(jvp(decoder))/attention/dot_general", "decoder/attention"),
        ("jit(f)/vmap(transpose(vmap(jvp(attention))))/broadcast_in_dim", "attention"),
        ("jit(f)/jvp()/while/body/closed_call/layer/jit(relu)/max", "layer"),
        (
            "jit(f)/transpose(jvp())/while/body/closed_call/checkpoint/rematted_computation/layer/dot_general",
            "layer",
        ),
        ("jit(f)/cond/branch_1_fun/expert/dot_general", "expert"),
        ("jit(f)/btd,dhk->bthk/dot_general", ""),
        ("jit(f)/encoder/mul;jit(f)/decoder/add", "encoder"),
        ("jit(f)/(transpose(jvp(encoder))/dot_general:transpose(jvp())/mul:jvp()/reduce_sum)", "encoder"),
        ("jit(f)/(transpose(jvp())/dot_general:jvp()/reduce_sum)", ""),
        ("jit(f)/(hidden)/add", "(hidden)"),
        ("jit(f)/transpose(jvp(a))/b/jvp(a)/b/checkpoint/c/dot_general", "a/b/c"),
        ("jit(f)/jvp()/while/body/eval_jaxpr/attention/attention/add", "attention/attention"),
        ("jit(f)/add", ""),
        ("reduce_sum", ""),
        ("", ""),
    ],
)
def test_a_scope_is_what_the_user_named(operation_name, scope):
    assert scope_of(operation_name) == scope


def _network(w, x):
    with jax.named_scope("encoder"):
        x = jnp.tanh(x @ w)
    with jax.named_scope("decoder"):
        return jnp.sum((x @ w) @ w)


def test_cost_can_be_summed_by_layer_forward_and_backward(cost_of):
    found = cost_of(jax.grad(_network), jnp.ones((32, 32)), jnp.ones((16, 32)))
    by_scope = dict.fromkeys(("encoder", "decoder"), 0.0)
    for operation in found.operations:
        if operation.cost.matrix_flops:
            by_scope[operation.scope] += operation.cost.matrix_flops
    product = 2 * 16 * 32 * 32
    assert by_scope["encoder"] == 2 * product  # forward, and the weight's gradient
    assert sum(by_scope.values()) == found.cost.matrix_flops


def test_an_operation_names_its_source_line(cost_of):
    found = cost_of(_network, jnp.ones((32, 32)), jnp.ones((16, 32)))
    first_line = inspect.getsourcelines(_network)[1]
    product = next(operation for operation in found.operations if operation.scope == "encoder")
    assert product.source == f"{__file__}:{first_line + 2}"
    assert product.operation_name.endswith(("dot_general", "tanh"))


def test_a_fusion_is_one_operation_and_free_instructions_are_none(cost_of):
    found = cost_of(lambda x: jnp.sin(x) * 2 + 1, jnp.ones(1000))
    (operation,) = found.operations
    assert operation.opcode == "fusion"
    assert operation.executions == 1
    assert operation.cost == operation.once == found.cost


def test_a_fusion_that_ends_in_a_conversion_of_the_compilers_has_the_line_of_what_it_converts(text_cost):
    metadata = ', metadata={op_name="jit(f)/layer/sub" source_file="train.py" source_line=25}'
    text = f"""HloModule jit_f, is_scheduled=true
    fused {{
      x = bf16[64]{{0}} parameter(0)
      wide = f32[64]{{0}} convert(x)
      y = bf16[64]{{0}} parameter(1), metadata={{op_name="y"}}
      also = f32[64]{{0}} convert(y)
      sub = f32[64]{{0}} subtract(wide, also){metadata}
      ROOT narrow = bf16[64]{{0}} convert(sub)
    }}
    ENTRY main {{
      x = bf16[64]{{0}} parameter(0)
      y = bf16[64]{{0}} parameter(1)
      ROOT fusion = bf16[64]{{0}} fusion(x, y), kind=kLoop, calls=fused
    }}"""
    for written, expected in ((text, ("train.py:25", "layer")), (text.replace(metadata, ""), ("", ""))):
        (operation,) = text_cost(written).operations
        assert (operation.source, operation.scope) == expected


def test_what_the_compiler_added_has_the_line_that_needs_it_or_else_that_of_what_it_came_of(text_cost):
    line = ', metadata={op_name="jit(f)/layer/neg" source_file="train.py" source_line=7}'
    text = f"""HloModule jit_f, is_scheduled=true, num_partitions=8
    ENTRY main {{
      part = f32[64]{{0}} parameter(0)
      whole = f32[512]{{0}} all-gather(part), channel_id=1, replica_groups=[1,8]<=[8], dimensions={{0}},
        use_global_device_ids=true
      moved = f32[512]{{0}} copy(whole)
      made = f32[512]{{0}} negate(moved){line}
      kept = f32[512]{{0}} copy(made)
      ROOT both = (f32[512]{{0}}) tuple(kept)
    }}"""
    found = {one.name: (one.source, one.scope, one.operation_name) for one in text_cost(text).operations}
    assert found == {
        "whole": ("train.py:7", "layer", ""), "moved": ("train.py:7", "layer", ""),
        "made": ("train.py:7", "layer", "jit(f)/layer/neg"), "kept": ("train.py:7", "layer", ""),
    }  # fmt: skip
    assert {one.source for one in text_cost(text.replace(line, "")).operations} == {""}
    named = text.replace(
        "copy(whole)", 'copy(whole), metadata={op_name="jit(f)/transpose(jvp())/other/copy"}'
    )
    (moved,) = (one for one in text_cost(named).operations if one.name == "moved")
    assert (moved.source, moved.scope, moved.autodiff) == ("train.py:7", "other", "backward")


def test_an_operation_of_a_librarys_layer_names_the_line_that_calls_the_layer(cost_of):
    layer = nn.Dense(8, name="head")
    x = jnp.ones((16, 32))
    parameters = layer.init(jax.random.key(0), x)

    def apply(parameters, x):
        return layer.apply(parameters, x)

    found = cost_of(apply, parameters, x)
    product = next(operation for operation in found.operations if operation.cost.matrix_flops)
    assert product.source == f"{__file__}:{inspect.getsourcelines(apply)[1] + 1}"
    assert "head" in product.scope


@pytest.mark.parametrize(
    ("file", "installed"),
    [
        ("/home/ada/.venv/lib/python3.11/site-packages/keras/src/trainer.py", True),
        ("/usr/lib/python3/dist-packages/numpy/core.py", True),
        ("/usr/lib/python3.11/functools.py", True),
        ("<frozen runpy>", True),
        ("/home/ada/.venv/lib/python3.11/site-packages/jaxobs/cli/demonstration.py", False),
        ("/home/ada/train.py", False),
        ("/home/ada/maxtext/layers.py", False),
        ("<string>", False),
        ("/tmp/ipykernel_12/3456.py", False),
    ],
)
def test_what_pip_has_installed_is_not_the_users(file, installed):
    assert is_installed(file) is installed


def _lines_of(operation):
    return [(frame.function.rpartition(".")[2], frame.file, frame.line) for frame in operation.stack]


def test_an_operation_has_the_calls_that_lead_to_it(cost_of):
    def block(w, x):
        return jnp.tanh(x @ w)

    @jax.jit
    def inner(w, x):
        return block(w, x) @ w

    def scanned(w, x):
        return jax.lax.scan(lambda x, _: (inner(w, x), None), x, None, length=3)[0]

    first = inspect.getsourcelines(block)[1]
    found = cost_of(scanned, jnp.ones((32, 32)), jnp.ones((16, 32)))
    products = [operation for operation in found.operations if operation.cost.matrix_flops]
    ends = {tuple(_lines_of(operation)[-2:]) for operation in products}
    assert (("inner", __file__, first + 5), ("block", __file__, first + 1)) in ends
    for operation in products:
        stack = _lines_of(operation)
        assert len(stack) == len(set(stack))  # a scan's body has its caller's frames once more
        assert [frame for frame in stack if frame[0] == "scanned"] == [("scanned", __file__, first + 8)]


def test_a_stack_without_end_is_cut():
    """Frames that call each other in a circle, as in a damaged module."""
    index = ModuleMessage()
    index.stack_frame_index.file_names.append(b"model.py")
    for line in range(1, 151):
        index.stack_frame_index.file_locations.add(file_name_id=1, line=line)
        index.stack_frame_index.stack_frames.add(file_location_id=line, parent_frame_id=line % 150 + 1)
    stack = Provenance(Module(index)).stack_of(7)
    assert [frame.line for frame in stack[-3:]] == [9, 8, 7]
    assert len(stack) == MAX_CALLS


def test_a_loops_own_time_has_the_line_of_the_loop(cost_of):
    def looped(x):
        return jax.lax.while_loop(lambda x: jnp.sum(x) < 10, lambda x: x + 1, x)

    found = cost_of(looped, jnp.ones(100))
    (loop,) = [each for each in found.without_work if each.opcode == "while"]
    assert _lines_of(loop)[-1] == ("looped", __file__, inspect.getsourcelines(looped)[1] + 1)
    assert loop.cost.flops == loop.cost.bytes == 0
    assert loop.name not in {operation.name for operation in found.operations}


def test_frames_of_libraries_are_folded_into_the_line_that_calls_them(cost_of):
    layer = nn.Dense(8)
    x = jnp.ones((16, 32))
    parameters = layer.init(jax.random.key(0), x)

    def apply(parameters, x):
        return layer.apply(parameters, x)

    found = cost_of(apply, parameters, x)
    product = next(operation for operation in found.operations if operation.cost.matrix_flops)
    assert _lines_of(product)[-1] == ("apply", __file__, inspect.getsourcelines(apply)[1] + 1)
    assert not any(is_installed(frame.file) for frame in product.stack)


def test_forward_backward_and_rematerialised_operations_are_told_apart(cost_of):
    @jax.checkpoint
    def block(w, x):
        return jnp.tanh(jnp.tanh(x @ w) @ w)

    def loss(w, x):
        with jax.named_scope("outer"):
            x = block(w, x)
        return jnp.sum(x)

    found = cost_of(jax.value_and_grad(loss), jnp.ones((32, 32)), jnp.ones((16, 32)))
    products = [operation for operation in found.operations if operation.cost.matrix_flops]
    flops = dict.fromkeys(("forward", "backward", "rematerialised"), 0.0)
    for operation in products:
        flops[operation.autodiff] += operation.cost.matrix_flops
    product = 2 * 16 * 32 * 32
    # How much is repeated is the compiler's choice; all beyond the five products of the program is.
    repeated = found.cost.matrix_flops - 5 * product
    assert flops == {"forward": 2 * product, "backward": 3 * product, "rematerialised": repeated}
    assert found.cost.rematerialized_flops == repeated
    assert {operation.scope for operation in products} == {"outer"}
