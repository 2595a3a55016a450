"""Finds the types in which devices multiply float32 where a program leaves the precision to them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from jaxobs.hardware.chips import normalised

Products = Mapping[str, tuple[str, int]]
"""For each requested precision (`default`, `high`, `highest`), the type of the multiplications and the passes."""

_GPUS: Final = ("gpu", "cuda")
_OTHER_VENDOR: Final = re.compile(r"\b(?:amd|instinct|radeon|intel|gfx\w+)\b")
_OF_TPUS: Final = {"default": ("bfloat16", 1), "high": ("bfloat16", 3), "highest": ("bfloat16", 6)}


def float32_products(
    device_kind: str,
    platform: str,
    known: Collection[str],
    own: Collection[str],
    tensorfloat32_allowed: bool | None,
) -> Products:
    """The types in which a device multiplies float32, by precision; float32 itself for precisions that are absent.

    JAX's default is TensorFloat-32 on NVIDIA's GPUs since Ampere, bfloat16 on TPUs (docs.jax.dev, "Matmul precision").
    XLA takes TensorFloat-32 on NVIDIA's GPUs alone (openxla/xla, xla/service/gpu/matmul_utils.cc). On TPUs `high` is
    three passes of bfloat16 and `highest` six (openxla/xla, ALG_DOT_BF16_BF16_F32_X3
    and X6, which XLA names as theirs).

    Args:
        device_kind: The string that JAX reports.
        platform: JAX's name of the backend.
        known: Keys of the device's peaks.
        own: The keys among them that the user has set. A user's own peak for float32 is that of these products.
        tensorfloat32_allowed: As in `peaks_for`.
    """
    if "matrix.float32" in own and "matrix.tensorfloat32" not in own:
        return {}
    if platform == "tpu":
        return _OF_TPUS if "matrix.bfloat16" in known else {}
    if platform in _GPUS and tensorfloat32_allowed is None and "matrix.tensorfloat32" in known:
        return {} if _OTHER_VENDOR.search(normalised(device_kind)) else {"default": ("tensorfloat32", 1)}
    return {}
