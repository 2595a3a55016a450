"""`jaxobs.roofline` of products, a copy, a softmax and attention: time against the wall clock, cost against formulas.

The wall clock of many runs shares no code with jaxobs. CUDA's events would need JAX's own stream, which it does not give
to Python (a stream made with CU_STREAM_NON_BLOCKING, as XLA's are, does not order with the default one: CUDA driver API,
"Stream synchronization behavior"). One stream runs what is dispatched in order, so the wall clock of a second of calls
with one wait at the end is device time and the gaps between launches, if the device is the slower one.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks.gpu_check.findings import Findings

WARM_UP_CALLS = 3
MIN_CALLS = 5

TOLERANCE = 0.05
"""Of times, as the two are measured a second apart on a device whose clock follows its temperature and power."""

TOLERANCE_OF_A_CPU = 1.0
"""Programs are small there, the processor is shared with others, and `jaxobs.roofline` keeps the results of a batch: each
is new memory, whose first touch takes as long again as a copy. Only what is grossly wrong is seen."""


GPU = 8192, 2**28, 32768, 8192
SMALL = 256, 2**18, 256, 256
"""Rows of the matrices, elements of the copy, rows and columns of the softmax. On a GPU a copy of 1 GiB and a softmax of
as much, many times the largest cache (H200: 60 MB of L2)."""

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
    bytes_between: tuple[float, float] | None = None
    label: str | None = None
    slack: float = TOLERANCE
    """Of the efficiency: larger where XLA may add passes over memory of its own, which the formula leaves out."""


def judge(told: Findings, program: Program) -> None:
    """Say its figures, or that it cannot run here and why."""
    try:
        _judge(told, program)
    except Exception as error:  # noqa: BLE001  # a type or a library that is not here costs this program alone
        said = " ".join(str(error).split())
        told.unmeasured(program.name, f"{type(error).__name__}: {said[:300]}")


def _judge(told: Findings, program: Program) -> None:
    import jax

    import jaxobs

    inputs = jax.block_until_ready(program.inputs())
    jitted = jax.jit(program.function)
    compiled = jitted.lower(*inputs).compile()
    executable: Any = compiled.runtime_executable()
    module = executable.hlo_modules()[0]
    name = program.name.replace(", ", "-").replace(" ", "_")
    told.evidence(f"modules/{name}.hlo.pb").write_bytes(module.as_serialized_hlo_module_proto())
    # One before and one after: a drift of the clock is in both.
    before = seconds_of_one_run(jitted, inputs)
    found = jaxobs.roofline(jitted, *inputs)
    after = seconds_of_one_run(jitted, inputs)
    wall = (before + after) / 2
    told.keep_json(f"rooflines/{name}.json", found.to_dict() | {"wall_clock": [before, after]})
    told.figure(
        f"{program.name}: time", found.seconds, wall,
        relative=TOLERANCE if told.on_gpu else TOLERANCE_OF_A_CPU, unit="s",
    )  # fmt: skip
    told.figure(f"{program.name}: matrix FLOPs", found.cost.matrix_flops, program.flops, relative=1e-9)
    if program.bytes is not None:
        told.figure(f"{program.name}: bytes", found.cost.bytes, program.bytes, relative=1e-9, unit="B")
    if program.bytes_between is not None:
        told.figure(f"{program.name}: bytes", found.cost.bytes, between=program.bytes_between, unit="B")
    if program.executed is not None:
        told.figure(f"{program.name}: runs in", _types(found), program.executed)
    if program.label is not None and found.efficiency is not None:
        told.figure(f"{program.name}: bottleneck", found.bottleneck, program.label)
    _efficiency(told, program, found, wall)
    told.figure(f"{program.name}: not modelled", ", ".join(found.cost.unmodelled) or "nothing", "nothing")


def _efficiency(told: Findings, program: Program, found: Any, wall: float) -> None:
    """Against the bound by hand: for a product its FLOPs over the datasheet's rate, for a copy its bytes."""
    name = f"{program.name}: efficiency"
    slack = program.slack if told.on_gpu else TOLERANCE_OF_A_CPU
    work, peak = program.flops, found.peaks.matrix_peak(program.executed) if program.executed else None
    if not work or peak is None:
        work, peak = program.bytes or 0.0, found.peaks.memory
    if work and peak is not None:
        told.figure(
            name, found.efficiency, work / peak.value / wall, relative=slack,
            source=f"formula, {peak.provenance} peak, wall clock", reason=found.reason,
        )  # fmt: skip
    else:
        told.figure(name, found.efficiency, reason=found.reason)
    if found.efficiency is not None and told.on_gpu:
        # No device does more than its peak. A softmax or an attention may find its data in the cache.
        told.figure(f"{name} is possible", found.efficiency, between=(0.0, 1.02))


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


def products(told: Findings) -> None:
    """Each program in turn; one that cannot run here costs the others nothing."""
    for program in _programs(told):
        judge(told, program)


def _programs(told: Findings) -> list[Program]:
    import jax
    import jax.numpy as jnp

    side, elements, rows, columns = GPU if told.on_gpu else SMALL
    flops = 2.0 * side**3
    highest = jax.lax.Precision.HIGHEST
    found = [
        Program(
            "bfloat16 product", lambda x, y: x @ y, _random("bfloat16", side, side, count=2), flops,
            executed="bfloat16" if told.on_gpu else None,  # a CPU may widen it
        ),
        # JAX's default precision on GPUs since Ampere is TensorFloat-32 (docs.jax.dev, "Matmul precision").
        Program(
            "float32 product, default precision", jnp.matmul, _random("float32", side, side, count=2), flops,
            executed="tensorfloat32" if told.on_gpu else "float32",
        ),
        Program(
            "float32 product, highest precision", lambda x, y: jnp.matmul(x, y, precision=highest),
            _random("float32", side, side, count=2), flops, executed="float32",
        ),
        Program("copy", jnp.copy, _random("float32", elements), 0.0, bytes=8.0 * elements, label="memory"),
        # One pass where XLA fuses it, else up to three; more would be wrong.
        Program(
            "softmax", lambda x: jax.nn.softmax(x, axis=-1), _random("float32", rows, columns), 0.0,
            bytes_between=(8.0 * rows * columns, 24.0 * rows * columns),
        ),
    ]  # fmt: skip
    if told.on_gpu:
        # cuBLASLt takes 8-bit floats from compute capability 8.9 on, results in bfloat16, float16 or float32 (cuBLAS
        # documentation, cublasLtMatmul, table of 8-bit types).
        narrow: Callable[..., Any] = lambda x, y: jnp.matmul(x, y, preferred_element_type=jnp.bfloat16)  # noqa: E731
        eight = Program(
            "float8 product", narrow, _random("float8_e4m3fn", side, side, count=2), flops, executed="float8_e4m3fn",
            slack=0.1,  # one side is transposed for cuBLASLt: 0.13 GB, a twentieth of the product's time
        )  # fmt: skip
        found.insert(1, eight)
    else:
        told.unmeasured("float8 product", "a CPU widens 8-bit floats")
    return found


Inputs = Callable[[], tuple[Any, ...]]


def _random(dtype: str, *shape: int, count: int = 1) -> Inputs:
    """So many random arrays: on zeros a GPU draws less power and clocks higher."""

    def make() -> tuple[Any, ...]:
        import jax

        keys = jax.random.split(jax.random.key(0), count)
        return tuple(jax.random.normal(key, shape, "float32").astype(dtype) for key in keys)

    return make


def attention(told: Findings) -> None:
    """Both implementations, causal and not, each forward and with its gradients."""
    batch, length, heads, size = GPU_ATTENTION if told.on_gpu else SMALL_ATTENTION
    for name, implementation in (("plain", "xla"), ("cuDNN", "cudnn")):
        if implementation == "cudnn" and not told.on_gpu:
            told.unmeasured("cuDNN attention", "cuDNN needs a GPU")
            continue
        for causal in (False, True):
            # Only cuDNN leaves out what a causal mask hides.
            masked = causal and implementation == "cudnn"
            pairs = length * (length + 1) // 2 if masked else length**2
            forward = 4.0 * batch * heads * pairs * size
            # Forward and four products of the backward pass; cuDNN's makes the scores anew besides.
            again = forward / 2 if implementation == "cudnn" else 0.0
            title = f"{name} attention{', causal' if causal else ''}"
            attend = functools.partial(_attend, causal=causal, implementation=implementation)
            make = _random("bfloat16", batch, length, heads, size, count=3)
            judge(told, Program(title, attend, make, forward))
            if causal == (implementation == "cudnn"):  # the gradient of one form each is enough
                slopes = functools.partial(_slopes, causal=causal, implementation=implementation)
                judge(told, Program(f"{title}, with gradients", slopes, make, 3 * forward + again))


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
