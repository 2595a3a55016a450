"""`jaxobs.roofline` of products, a copy and attention: time against the wall clock, cost against formulas.

The wall clock of many runs shares no code with jaxobs. CUDA's events would need JAX's own stream, which it does not give
to Python (a stream made with CU_STREAM_NON_BLOCKING, as XLA's are, does not order with the default one: CUDA driver API,
"Stream synchronization behavior"). One stream runs what is dispatched in order, so the wall clock of a second of calls
with one wait at the end is device time and the gaps between launches, if the device is the slower one.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from benchmarks.gpu_check.place import Place
from benchmarks.truths import Figure

WARM_UP_CALLS = 3
MIN_CALLS = 5

TOLERANCE = 0.05
"""Of times, as the two are measured a second apart on a device whose clock follows its temperature and power."""

EFFICIENCY_TOLERANCE = 0.1
"""XLA may add passes over memory of its own, which the formula leaves out: for an 8-bit product one side is transposed
for cuBLASLt, 0.13 GB, a twentieth of the product's time."""

TOLERANCE_OF_A_CPU = 1.0
"""Programs are small there, the processor is shared with others, and `jaxobs.roofline` keeps the results of a batch: each
is new memory, whose first touch takes as long again as a copy. Only what is grossly wrong is seen."""


GPU = 8192, 2**28
SMALL = 256, 2**18
"""Rows of the matrices, elements of the copy. On a GPU a copy of 1 GiB, many times the largest cache (H200: 60 MB of
L2)."""

GPU_ATTENTION = (4, 4096, 16, 128)
SMALL_ATTENTION = (1, 64, 2, 16)
"""Batch, length, heads, head size. cuDNN takes head sizes to 256 on Hopper, multiples of 8 (jax 0.11,
jax/_src/cudnn/fused_attention_stablehlo.py, check_is_flash_attention). The plain one's scores take 4 GiB: they
are float32 (jax/_src/nn/functions.py, _dot_product_attention_core)."""


class Program(NamedTuple):
    """What is timed, and what is known of it; `flops` are those of matrix products, 0 where it has none."""

    name: str
    function: Callable[..., Any]
    inputs: Callable[[], tuple[Any, ...]]
    flops: float
    executed: str | None = None
    """The type that the products run in; None where it is not asked."""
    bytes: float | None = None
    """None where it has products, whose work they are."""


def judge(place: Place, program: Program) -> Iterator[Figure]:
    """Its figures, or that it cannot run here and why."""
    try:
        yield from _judge(place, program)
    except Exception as error:  # noqa: BLE001  # a type or a library that is not here costs this program alone
        said = " ".join(str(error).split())
        yield Figure(program.name, reason=f"{type(error).__name__}: {said[:300]}")


def _judge(place: Place, program: Program) -> Iterator[Figure]:
    import jax

    import jaxobs

    inputs = jax.block_until_ready(program.inputs())
    jitted = jax.jit(program.function)
    executable: Any = jitted.lower(*inputs).compile().runtime_executable()
    file, name = program.name.replace(", ", "-").replace(" ", "_"), program.name
    module = executable.hlo_modules()[0].as_serialized_hlo_module_proto()
    place.evidence(f"modules/{file}.hlo.pb").write_bytes(module)
    # One before and one after: a drift of the clock is in both.
    before = seconds_of_one_run(jitted, inputs)
    found = jaxobs.roofline(jitted, *inputs)
    after = seconds_of_one_run(jitted, inputs)
    wall = (before + after) / 2
    place.keep_json(f"rooflines/{file}.json", found.to_dict() | {"wall_clock": [before, after]})
    near = TOLERANCE if place.on_gpu else TOLERANCE_OF_A_CPU
    yield Figure(f"{name}: time", found.seconds, wall, relative=near, unit="s")
    yield Figure(f"{name}: matrix FLOPs", found.cost.matrix_flops, program.flops, relative=1e-9)
    if program.bytes is not None:
        yield Figure(f"{name}: bytes", found.cost.bytes, program.bytes, relative=1e-9, unit="B")
        if found.efficiency is not None:
            yield Figure(f"{name}: bottleneck", found.bottleneck, "memory")
    if program.executed is not None:
        yield Figure(f"{name}: runs in", _types(found), program.executed)
    yield _efficiency(place, program, found, wall)
    if found.efficiency is not None and place.on_gpu:
        # No device does more than its peak. An attention may find its data in the cache.
        yield Figure(f"{name}: efficiency is possible", found.efficiency, between=(0.0, 1.02))
    yield Figure(f"{name}: not modelled", ", ".join(found.cost.unmodelled) or "nothing", "nothing")


def _efficiency(place: Place, program: Program, found: Any, wall: float) -> Figure:
    """Against the bound by hand: for a product its FLOPs over the datasheet's rate, for a copy its bytes."""
    near = EFFICIENCY_TOLERANCE if place.on_gpu else TOLERANCE_OF_A_CPU
    work, peak = program.bytes, found.peaks.memory
    if work is None:
        work, peak = program.flops, program.executed and found.peaks.matrix_peak(program.executed)
    truth = work / peak.value / wall if peak else None
    note = f"formula, {peak.provenance} peak, wall clock" if peak else ""
    name = f"{program.name}: efficiency"
    return Figure(name, found.efficiency, truth, relative=near, note=note, reason=found.reason)


def _types(found: Any) -> str:
    """The types in which its products run on this device."""
    compiled = found.cost.executed_matrix_flops_by_type or found.cost.matrix_flops_by_type
    run = found.peaks.types_run_in(compiled, found.cost.executed_float32_flops_by_precision)
    return ", ".join(sorted(name for name, flops in run.items() if flops)) or "none"


def seconds_of_one_run(function: Callable[..., Any], arguments: tuple[Any, ...]) -> float:
    """Mean time of a call, s, over about a second of calls that are dispatched one after the other."""

    def seconds_of(calls: int) -> float:
        import jax

        began = time.perf_counter()
        for _ in range(calls):
            result = function(*arguments)
        jax.block_until_ready(result)
        return (time.perf_counter() - began) / calls

    seconds_of(WARM_UP_CALLS)
    return seconds_of(max(MIN_CALLS, round(1.0 / max(seconds_of(MIN_CALLS), 1e-6))))


def products(place: Place) -> Iterator[Figure]:
    """Each program in turn; one that cannot run here costs the others nothing."""
    for program in _programs(place):
        yield from judge(place, program)


def _programs(place: Place) -> Iterator[Program]:
    import jax
    import jax.numpy as jnp

    side, elements = GPU if place.on_gpu else SMALL
    flops = 2.0 * side**3
    two = functools.partial(_random, shape=(side, side), count=2)
    highest = functools.partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)
    # JAX's default precision on GPUs since Ampere is TensorFloat-32 (docs.jax.dev, "Matmul precision").
    default = "tensorfloat32" if place.on_gpu else "float32"
    # A CPU may widen it.
    yield Program(
        "bfloat16 product", jnp.matmul, two("bfloat16"), flops, "bfloat16" if place.on_gpu else None
    )
    if place.on_gpu:
        # cuBLASLt takes 8-bit floats from compute capability 8.9 on, results in bfloat16, float16 or float32 (cuBLAS
        # documentation, cublasLtMatmul, table of 8-bit types).
        narrow = functools.partial(jnp.matmul, preferred_element_type=jnp.bfloat16)
        yield Program("float8 product", narrow, two("float8_e4m3fn"), flops, "float8_e4m3fn")
    yield Program("float32 product, default precision", jnp.matmul, two("float32"), flops, default)
    yield Program("float32 product, highest precision", highest, two("float32"), flops, "float32")
    yield Program("copy", jnp.copy, _random("float32", (elements,)), 0.0, bytes=8.0 * elements)


Inputs = Callable[[], tuple[Any, ...]]


def _random(dtype: str, shape: tuple[int, ...], count: int = 1) -> Inputs:
    """So many random arrays: on zeros a GPU draws less power and clocks higher."""

    def make() -> tuple[Any, ...]:
        import jax

        keys = jax.random.split(jax.random.key(0), count)
        return tuple(jax.random.normal(key, shape, "float32").astype(dtype) for key in keys)

    return make


def attention(place: Place) -> Iterator[Figure]:
    """Both implementations, and what a mask hides, forward and with gradients."""
    batch, length, heads, size = GPU_ATTENTION if place.on_gpu else SMALL_ATTENTION
    make = _random("bfloat16", (batch, length, heads, size), count=3)
    # Of the plain one a causal mask hides nothing; cuDNN leaves out what it hides, and needs a GPU.
    forms = (("plain", "xla", False), ("cuDNN", "cudnn", False), ("causal cuDNN", "cudnn", True))
    for name, implementation, causal in forms if place.on_gpu else forms[:1]:
        pairs = length * (length + 1) // 2 if causal else length**2
        forward = 4.0 * batch * heads * pairs * size
        # Forward and four products of the backward pass; cuDNN's makes the scores anew besides.
        again = forward / 2 if implementation == "cudnn" else 0.0
        attend = functools.partial(_attend, causal=causal, implementation=implementation)
        yield from judge(place, Program(f"{name} attention", attend, make, forward))
        slopes = functools.partial(_slopes, causal=causal, implementation=implementation)
        yield from judge(
            place, Program(f"{name} attention with gradients", slopes, make, 3 * forward + again)
        )


def _attend(query: Any, key: Any, value: Any, *, causal: bool, implementation: Any) -> Any:
    import jax

    return jax.nn.dot_product_attention(query, key, value, is_causal=causal, implementation=implementation)


def _slopes(query: Any, key: Any, value: Any, *, causal: bool, implementation: Any) -> Any:
    """Result and gradients, so that XLA can leave out neither pass.

    The cotangent is data: a sum's would be all ones, with which XLA simplifies the products.
    """
    import jax

    attend = functools.partial(_attend, causal=causal, implementation=implementation)
    result, back = jax.vjp(attend, query, key, value)
    return result, back(query)
