"""Whether JAX has a backend and a persistent cache, and the version of jaxlib."""

from __future__ import annotations

import sys


def backend_exists() -> bool:
    """Whether JAX has created a backend. Without the private name: False, and devices stay unknown."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    check = getattr(bridge, "backends_are_initialized", None)
    return bool(check()) if callable(check) else False


def persistent_cache_is_on() -> bool:
    """Whether JAX is configured to keep executables on disk, and where. Public names; without them: False."""
    config = getattr(sys.modules.get("jax"), "config", None)
    return bool(getattr(config, "jax_compilation_cache_dir", None)) and bool(
        getattr(config, "jax_enable_compilation_cache", False)
    )


def jaxlib_version() -> tuple[int, ...]:
    """The version of jaxlib, such as (0, 8, 2); empty where it is not known."""
    version = getattr(sys.modules.get("jax._src.lib"), "version", ())
    return tuple(part for part in version if isinstance(part, int))
