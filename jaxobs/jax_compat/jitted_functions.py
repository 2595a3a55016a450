"""Jitted functions as objects: copies of what `jax.jit` returns, and the number of its executables."""

from __future__ import annotations

import copy
import weakref
from typing import Any

from jaxobs.jax_compat.foreign_objects import is_of, name_of
from jaxobs.plugin.guard import Suppressed

JITTED = "PjitFunction"
"""The name of jaxlib's type of what `jax.jit` returns."""


def twin(function: Any) -> Any:
    """A second object for the same jitted function: same executables, caches and attributes. None for anything else.

    A reference to the twin does not keep the function alive, so an attribute of the function may hold one. It is made
    by `copy.copy`, which jaxlib supports as it does pickling.
    """
    if name_of(type(function)) != JITTED or not is_of(type(function), "jax", "jaxlib"):
        return None
    with Suppressed(Exception):
        # jaxlib aborts the process when it copies the jitted form of an object that has no weak references, such as one
        # with __slots__ (up to 0.12.0.1). This line raises TypeError for it; JAX raises too when it is called.
        weakref.ref(function.__wrapped__)
        copied = copy.copy(function)
        if type(copied) is type(function) and copied is not function:
            vars(copied).update(vars(function))
            return copied
    return None


def executables_alive(function: Any) -> int | None:
    """How many executables a jitted function has now. None for anything else, and without the private name."""
    count = getattr(function, "_cache_size", None)
    return int(count()) if callable(count) else None
