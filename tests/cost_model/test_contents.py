"""What makes a module slow to compile, in modules of JAX: unrolled loops by the line that wrote them, and constants."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.cost_model import module_cost
from jaxobs.cost_model.contents import MIN_TIMES, module_contents, unrolled_loop
from jaxobs.model.contents import MAX_CONSTANTS, Contents, Unrolled, facts_in_words, remedies
from jaxobs.model.cost import Frame, ModuleCost
from jaxobs.model.figure import plain

LAYERS, FEWER = 200, 40
WEIGHTS, FEWER_WEIGHTS = (jax.ShapeDtypeStruct((number, 8, 8), jnp.float32) for number in (LAYERS, FEWER))
ROWS = jax.ShapeDtypeStruct((2, 8), jnp.float32)

Found = Callable[..., Contents]


def line_of(function: Callable[..., Any], marked: str) -> str:
    """The `file:line` of the function's line that ends in this mark."""
    lines, first = inspect.getsourcelines(function)
    (at,) = [number for number, line in enumerate(lines, first) if line.rstrip().endswith(f"# {marked}")]
    return f"{Path(__file__)}:{at}"


@pytest.fixture(scope="module")
def contents_of(proto: Callable[..., bytes]) -> Found:
    def found(function: Callable[..., Any], *args: Any) -> Contents:
        return module_contents(proto(function, *args))

    return found


def layer(x: jax.Array, w: jax.Array) -> jax.Array:
    y = jnp.tanh(x @ w)
    return y / jnp.sqrt(1.0 + jnp.mean(y**2))


def unrolled_of(found: Contents, times: int) -> Unrolled:
    assert found.unrolled.value is not None
    assert found.unrolled.value.times == times
    return found.unrolled.value


def test_a_python_loop_of_hundreds_of_layers_is_named_by_its_line(contents_of: Found) -> None:
    def network(weights: jax.Array, x: jax.Array) -> jax.Array:
        for index in range(LAYERS):
            x = layer(x, weights[index])  # the loop
        return x

    unrolled = unrolled_of(contents_of(network, WEIGHTS, ROWS), LAYERS)
    assert unrolled.line == line_of(network, "the loop")
    assert unrolled.function.endswith("network")
    assert unrolled.share > 0.9
    assert unrolled.operations >= 5  # slice, product, tanh, mean, division


def test_its_gradient_is_the_same_loop(contents_of: Found) -> None:
    def loss(weights: jax.Array, x: jax.Array) -> jax.Array:
        for index in range(FEWER):
            x = layer(x, weights[index])  # the loop
        return jnp.sum(x)

    unrolled = unrolled_of(contents_of(jax.grad(loss), FEWER_WEIGHTS, ROWS), FEWER)
    assert unrolled.line == line_of(loss, "the loop")
    assert unrolled.share > 0.7


def test_a_loop_over_a_jitted_function_is_one_too(contents_of: Found) -> None:
    jitted = jax.jit(layer)

    def network(weights: jax.Array, x: jax.Array) -> jax.Array:
        for index in range(FEWER):
            x = jitted(x, weights[index])
        return x

    assert unrolled_of(contents_of(network, FEWER_WEIGHTS, ROWS), FEWER).share > 0.9


def test_layers_with_numbered_scopes_are_the_same(contents_of: Found) -> None:
    def network(x: jax.Array) -> jax.Array:
        for index in range(FEWER):
            with jax.named_scope(f"layer_{index}"):
                x = jnp.cos(jnp.sin(x))
        return x

    assert unrolled_of(contents_of(network, ROWS), FEWER).share > 0.9


def test_the_lines_of_a_function_that_loops_itself_are_told_below_its_call(contents_of: Found) -> None:
    def looping(x: jax.Array) -> jax.Array:
        for _ in range(LAYERS):
            x = jnp.sin(x)
            x = jnp.cos(x)
        return x

    def network(x: jax.Array) -> jax.Array:
        return looping(x)  # the call

    unrolled = unrolled_of(contents_of(network, ROWS), LAYERS)
    first = looping.__code__.co_firstlineno + 2
    assert unrolled.line == line_of(network, "the call")
    assert unrolled.within.startswith(f"lines {first} to {first + 1} of ")
    assert unrolled.within.endswith("looping")
    assert unrolled.operations == 2


def test_a_scan_is_no_unrolled_loop_unless_it_says_so(contents_of: Found) -> None:
    def scanned(x: jax.Array, unroll: int) -> Any:
        return jax.lax.scan(lambda c, _: (jnp.cos(jnp.sin(c)), None), x, length=LAYERS, unroll=unroll)[0]

    assert contents_of(lambda x: scanned(x, 1), ROWS).unrolled.value is None
    assert unrolled_of(contents_of(lambda x: scanned(x, LAYERS), ROWS), LAYERS).share > 0.9


def test_random_numbers_and_few_layers_are_no_unrolled_loop(contents_of: Found) -> None:
    def few(x: jax.Array) -> jax.Array:
        for _ in range(MIN_TIMES - 1):
            x = jnp.cos(jnp.sin(x))
        return x

    assert (
        contents_of(lambda key: jax.random.normal(key, (100,)), jax.random.PRNGKey(0)).unrolled.value is None
    )
    assert contents_of(few, ROWS).unrolled.value is None


def test_captured_constants_are_the_large_ones_by_the_line_that_uses_them(contents_of: Found) -> None:
    table = np.random.default_rng(0).random((512, 1024), dtype=np.float32)
    small = np.random.default_rng(0).random((8, 8), dtype=np.float32)

    def function(x: jax.Array) -> jax.Array:
        y = x @ small
        return jnp.tile(y, 64) @ table  # uses it

    (constant,) = contents_of(function, ROWS).constants
    assert (constant.dtype, constant.shape, constant.bytes) == ("float32", (512, 1024), 2 * 2**20)
    assert constant.line in {line_of(function, "uses it"), ""}  # older versions of XLA do not record it
    assert contents_of(function, ROWS).unrolled.value is None


def test_the_agent_is_told_the_same_with_the_cost(proto: Callable[..., bytes]) -> None:
    def network(weights: jax.Array, x: jax.Array) -> jax.Array:
        for index in range(20):
            x = layer(x, weights[index])
        return x

    serialized = proto(network, WEIGHTS, ROWS)
    cost: ModuleCost = module_cost(serialized)
    assert cost.contents == module_contents(serialized)


@given(
    times=st.integers(MIN_TIMES, 500),
    operations=st.lists(st.integers(1, 3), min_size=1, max_size=8),
    around=st.integers(0, 3),
    other=st.integers(0, 5),
)
def test_turns_and_operations_of_any_loop(times: int, operations: list[int], around: int, other: int) -> None:
    """Each line of a body does some operations once a turn; around the loop there are calls, and work of its own."""
    outer = tuple(Frame("main", "main.py", number) for number in range(around + 1))
    stacks = {
        (*outer, Frame("body", "body.py", number)): Counter(
            {(f"{number} {one}", "add"): times for one in range(many)}
        )
        for number, many in enumerate(operations, 1)
    }
    stacks[Frame("main", "other.py", 1),] = Counter({(f"{one}", "dot"): 1 for one in range(other)})
    found = unrolled_loop(stacks)
    assert found is not None
    assert (found.times, found.operations) == (times, sum(operations))
    assert found.share == pytest.approx(times * sum(operations) / (times * sum(operations) + other))
    assert ("body.py:1" if len(operations) == 1 else "main.py:") in found.line


def test_the_largest_constants_are_kept_and_told() -> None:
    rng = np.random.default_rng(0)
    network = [rng.random((1024, 256 + index), dtype=np.float32) for index in range(MAX_CONSTANTS + 2)]

    def function(x: jax.Array) -> Any:
        return [x @ each for each in network]

    serialized = jax.jit(function).lower(jnp.ones((2, 1024))).compile().runtime_executable()
    found = module_contents(serialized.hlo_modules()[0].as_serialized_hlo_module_proto())
    sizes = [constant.bytes for constant in found.constants]
    assert sizes == sorted(sizes, reverse=True)
    assert [constant.shape[1] for constant in found.constants] == [262, 261, 260, 259, 258]
    assert "float32[1024,262] (1.02 MiB)" in list(facts_in_words(plain(found)))[-1]
    (remedy,) = remedies(plain(found), 3.0)
    assert remedy.startswith("5.08 MiB of a program that took 3 s to lower and compile: pass captured arrays")


def test_what_a_gpus_compiler_chose_by_trying_is_counted(text_proto: Callable[[str], bytes]) -> None:
    """Not tiles that its cost model chose, what JAX sets itself, nor an algorithm that a precision asks for."""
    text = """
    f { ROOT a = bf16[4,16]{1,0} parameter(0) }
    g { ROOT a = bf16[4,16]{1,0} parameter(0) }
    h { ROOT a = bf16[4,16]{1,0} parameter(0) }
    ENTRY e {
      a = bf16[4,8]{1,0} parameter(0)
      b = bf16[8,16]{1,0} parameter(1)
      c = (bf16[4,16]{1,0}, s8[64]{0}) custom-call(a, b), custom_call_target="__cublas$gemm",
        backend_config={"gemm_backend_config":{"selected_algorithm":"7","alpha_real":1}}
      d = (bf16[4,16]{1,0}, s8[64]{0}) custom-call(a, b), custom_call_target="__cudnn$convForward",
        backend_config={"cudnn_conv_backend_config":{"algorithm":{"algo_id":"28","tuning_knobs":{"2":"1"}}}}
      y = (bf16[4,16]{1,0}, s8[64]{0}) custom-call(a, b), custom_call_target="__cudnn$fmhaSoftmax",
        backend_config={"cudnn_fmha_backend_config":{"algorithm":{"algo_id":"0","tuning_knobs":{"17":"1"}}}}
      x = (bf16[4,16]{1,0}, s8[64]{0}) custom-call(a, b), custom_call_target="__cublas$lt$matmul",
        backend_config={"gemm_backend_config":{"precision_config":{"algorithm":"ALG_DOT_BF16_BF16_F32"}}}
      i = bf16[4,16]{1,0} get-tuple-element(c), index=0
      j = bf16[4,16]{1,0} fusion(i), kind=kCustom, calls=f,
        backend_config={"fusion_backend_config":{"kind":"__triton_gemm","triton_gemm_config":{"block_m":"64"}}}
      k = bf16[4,16]{1,0} fusion(j), kind=kCustom, calls=g,
        backend_config={"fusion_backend_config":{"kind":"__triton_nested_gemm_fusion"}}
      ROOT l = bf16[4,16]{1,0} fusion(k), kind=kCustom, calls=h,
        backend_config={"fusion_backend_config":{"kind":"__triton","block_level_fusion_config":{"num_warps":"4"}}}
    }"""
    found = module_contents(text_proto(text))
    assert found.autotuned.value == 4
    assert "autotuning chooses the kernels of 4 operations" in "; ".join(facts_in_words(plain(found)))


def test_a_cpu_tries_nothing(contents_of: Found) -> None:
    found = contents_of(lambda x: jnp.tanh(x @ x.T), ROWS)
    assert found.autotuned.value == 0
    assert "autotuning" not in "; ".join(facts_in_words(plain(found)))
