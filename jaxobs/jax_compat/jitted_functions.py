"""Jitted functions as objects: what `jax.jit` returns, apart from what calling it does."""

from __future__ import annotations

import copy
import weakref
from typing import Any

from jaxobs.jax_compat.foreign_objects import is_of, name_of
from jaxobs.plugin.guard import Suppressed

JITTED = "PjitFunction"
"""The type of what `jax.jit` returns, of jaxlib's own (0.6.2, 0.8.2 and 0.10.2)."""


def twin(function: Any) -> Any:
    """Another object for the same jitted function: same executables, caches and attributes; None of anything else.

    Who holds the twin does not hold the function, so an attribute of the function may. By `copy.copy`, which jaxlib
    supports as it does pickling.
    """
    if name_of(type(function)) != JITTED or not is_of(type(function), "jax", "jaxlib"):
        return None
    with Suppressed(Exception):
        # jaxlib ends the process where it copies the jitted form of an object that cannot be referred to weakly, such as
        # one with __slots__ (seen on 0.10.2); TypeError here. JAX itself raises when such a function is called.
        weakref.ref(function.__wrapped__)
        copied = copy.copy(function)
        if type(copied) is type(function) and copied is not function:
            vars(copied).update(vars(function))
            return copied
    return None


def executables_alive(function: Any) -> int | None:
    """How many executables a jitted function has by now. None for anything else, and without the name."""
    count = getattr(function, "_cache_size", None)
    return int(count()) if callable(count) else None
