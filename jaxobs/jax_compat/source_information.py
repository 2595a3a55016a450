"""Tells frames of the user's from those of JAX and jaxobs."""

from __future__ import annotations

import functools
import sys


@functools.cache
def leave_out(file: str) -> None:
    """Let JAX no longer take frames of this file for the user's, but those around them. JAX must be imported.

    Done by `jax._src.source_info_util.register_exclusion`. Without it JAX's messages name a line of ours in place of the
    user's.
    """
    register = getattr(sys.modules.get("jax._src.source_info_util"), "register_exclusion", None)
    if callable(register):
        register(file)


@functools.cache
def own_packages() -> tuple[str, ...]:
    """Beginnings of the paths of files of JAX and the probe, whose frames are not the user's. JAX must be imported."""
    packages = ("jax", "jaxlib", "jaxobs.jax_compat", "jaxobs.measure", "jaxobs.probe")
    files = [getattr(sys.modules.get(name), "__file__", None) for name in packages]
    folders = [file.removesuffix("__init__.py") for file in files if file]
    return (*folders, "<frozen ")
