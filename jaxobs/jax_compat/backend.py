"""JAX's backends and its persistent cache: whether there are any."""

from __future__ import annotations

import sys


def backend_exists() -> bool:
    """Whether JAX has made a backend. Without the name: False, and devices stay unknown."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    check = getattr(bridge, "backends_are_initialized", None)
    return bool(check()) if callable(check) else False


def persistent_cache_is_on() -> bool:
    """Whether JAX keeps executables on disk: it is told to, and where. Public names; without them it is not known."""
    config = getattr(sys.modules.get("jax"), "config", None)
    return bool(getattr(config, "jax_compilation_cache_dir", None)) and bool(
        getattr(config, "jax_enable_compilation_cache", False)
    )


def jaxlib_version() -> tuple[int, ...]:
    """(0, 8, 2), say; empty where it cannot be told."""
    version = getattr(sys.modules.get("jax._src.lib"), "version", ())
    return tuple(part for part in version if isinstance(part, int))
