"""Attention, plain and cuDNN's flash attention, forward and backward: time and FLOPs, as in `products`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from benchmarks.gpu_check.figures import Findings
from benchmarks.gpu_check.rooflines import Program, judge

GPU = (4, 4096, 16, 128)
SMALL = (1, 64, 2, 16)
"""Batch, length, heads, head size. cuDNN takes head sizes to 256 on Hopper, multiples of 8 (jax 0.11,
jax/_src/cudnn/fused_attention_stablehlo.py, check_is_flash_attention). The plain one's scores take 4 GiB: they
are float32 (jax/_src/nn/functions.py, _dot_product_attention_core)."""


def check(told: Findings) -> None:
    """Both implementations, causal and not, each forward and with its gradients."""
    batch, length, heads, size = GPU if told.on_gpu else SMALL
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
            make = _inputs((batch, length, heads, size))
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


def _inputs(shape: tuple[int, ...]) -> Callable[[], tuple[Any, ...]]:
    def make() -> tuple[Any, ...]:
        import jax

        return tuple(
            jax.random.normal(key, shape, "float32").astype("bfloat16")
            for key in jax.random.split(jax.random.key(0), 3)
        )

    return make
