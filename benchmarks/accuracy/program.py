"""One program of the suite: what to compile, and what it must cost by formula."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp


@dataclass(frozen=True)
class Program:
    """A function with arguments and its analytic cost on one device; None where no formula is sharp.

    Matrix FLOPs count a multiply-add as 2, a complex one as 8. ``formula`` says where the figures come from
    where they are no plain product of sizes.
    """

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    matrix_flops: float = 0.0
    vector_flops: float | None = None
    bytes: float | None = None
    bytes_sent: float | None = None
    """Over the links by one device, with the factor of the ring algorithms (jaxobs/cost_model/collectives.py)."""
    rematerialized_flops: float = 0.0
    exact: bool = True
    unmodelled: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    formula: str = ""


def ones(*shape: int, dtype: Any = jnp.float32) -> jnp.ndarray:
    """An array to compile for; only its shape and type matter."""
    return jnp.ones(shape, dtype)
