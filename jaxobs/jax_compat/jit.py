"""Jitted functions as objects, tracers, and the settings and contexts on which a trace of JAX's depends."""

from __future__ import annotations

import copy
import sys
import weakref
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from jaxobs.jax_compat.objects import is_of, name_of
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


def cache_size_of(function: Any) -> Callable[[Any], int | None]:
    """What tells of this jitted function how many executables it has now, in one call into C (23 ns).

    None for anything else, and without the private name. One that runs NumPy's arrays and JAX's alike counts twice. It is
    not bound to the function: up to JAX 0.10 the garbage collector does not look into what is.
    """
    count = getattr(type(function), "_cache_size", None) if is_of(type(function), "jax", "jaxlib") else None
    return count if callable(count) else lambda _: None


_NEVER = SimpleNamespace(value=False)


def jit_switch() -> Any:
    """The setting whose `value` tells, in 40 ns, whether jitted functions run without jit on this thread.

    `jax.disable_jit()` sets it; a program compiled ahead raises then. Without the private name: False.
    """
    return _settings().get("jax_disable_jit", _NEVER)


def _settings() -> Mapping[str, Any]:
    config: Any = sys.modules.get("jax._src.config")
    return getattr(getattr(config, "config", None), "_value_holders", {})


def is_tracer(value: Any) -> bool:
    """Whether a value is a tracer, which exists only while JAX traces and must not be kept beyond that.

    `jax.core.Tracer` is public; False if JAX is not imported or a future version has no such name.
    """
    tracer = getattr(sys.modules.get("jax.core"), "Tracer", None)
    return isinstance(tracer, type) and issubclass(type(value), tracer)


TRACE_SETTINGS = (
    "jax_enable_x64", "jax_default_matmul_precision", "jax_default_device", "jax_numpy_dtype_promotion",
    "jax_numpy_rank_promotion", "jax_explicit_x64_dtypes", "jax_disable_jit", "jax_debug_key_reuse",
    "jax_random_seed_offset", "jax_threefry_partitionable", "jax_softmax_custom_jvp", "jax_optimization_level",
)  # fmt: skip
"""Settings in the key of JAX's cache of traces that a program may change between two calls: those of JAX's public context
managers and options. Thirty more choose ways within JAX, and are set once if ever."""

TRACE_CONTEXTS = {"compute_on": "compute_on_context_manager", "xla_metadata": "xla_metadata_context_manager"}
"""Context managers that are in that key as well, by the attribute of JAX's `config.py` that holds their value."""


def trace_context() -> list[tuple[str, Any]]:
    """This thread's current values of the settings and contexts on which a trace depends; missing ones are left out."""
    config: Any = sys.modules.get("jax._src.config")
    holders = _settings()
    values = [(name, holders[name].value) for name in TRACE_SETTINGS if name in holders]
    managers = [(name, getattr(config, attribute, None)) for name, attribute in TRACE_CONTEXTS.items()]
    values += [(name, manager.value) for name, manager in managers if manager is not None]
    mesh = sys.modules.get("jax._src.mesh")
    resources = getattr(mesh, "thread_resources", None)
    by_with = getattr(getattr(resources, "env", None), "physical_mesh", None)
    # In `config.py` up to 0.10, in `mesh.py` since.
    later = getattr(mesh, "abstract_mesh_context_manager", None)
    holder = getattr(config, "abstract_mesh_context_manager", later)
    values.append(("mesh", (by_with, getattr(holder, "value", None))))
    return values
