"""Which frames are the user's and which belong to JAX and to jaxobs."""

from __future__ import annotations

import functools
import sys

_excluded: set[str] = set()


def leave_out(file: str) -> None:
    """Frames of this file are no longer taken for the user's: what they call is, or whoever called them.

    By `jax._src.source_info_util.register_exclusion`, seen in 0.6.2, 0.8.2 and 0.10.2. Without it JAX's messages name our
    line in place of the user's. JAX must be imported.
    """
    module = sys.modules.get("jax._src.source_info_util")
    register = getattr(module, "register_exclusion", None)
    if callable(register) and file not in _excluded:
        _excluded.add(file)
        register(file)


@functools.cache
def own_packages() -> tuple[str, ...]:
    """How the files of JAX and of the probe begin: frames in them are not the user's. To be asked with JAX imported."""
    packages = ("jax", "jaxlib", "jaxobs.jax_compat", "jaxobs.measure", "jaxobs.probe")
    files = [getattr(sys.modules.get(name), "__file__", None) for name in packages]
    folders = [file.removesuffix("__init__.py") for file in files if file]
    return (*folders, "<frozen ")
