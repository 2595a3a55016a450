"""The phases of a compilation, and the causes of one that was made again."""

from __future__ import annotations

from typing import Final

PHASES: Final = ("trace", "lower", "backend", "cache_read")

CAUSES: Final = (
    "redefined", "pytree", "static_argument", "context", "dtype", "shape", "weak_type", "sharding", "other",
)  # fmt: skip
"""Every cause. Where several things changed at once, the first of these is named: each of the earlier ones makes JAX
compile again whatever the later ones are, and may be what changed them (64-bit mode changes element types)."""
