"""Values that stand for others while JAX traces a function."""

from __future__ import annotations

import sys
from typing import Any


def is_tracer(value: Any) -> bool:
    """Whether a value is known to JAX while it traces alone, and must not be kept beyond that.

    `jax.core.Tracer` is public; False where JAX is not imported or a future version has no such name.
    """
    tracer = getattr(sys.modules.get("jax.core"), "Tracer", None)
    return isinstance(tracer, type) and issubclass(type(value), tracer)
