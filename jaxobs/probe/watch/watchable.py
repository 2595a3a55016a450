"""Which callables can be watched, and what they are called."""

from __future__ import annotations

from typing import Any

from jaxobs.jax_compat.objects import is_of
from jaxobs.plugin.log import warn
from jaxobs.probe.watch.signatures import leaves_by_path
from jaxobs.vocabulary.text import cut_name

MOST_WRAPPERS = 20
"""Most `__wrapped__` attributes that are followed, more than anybody nests: a proxy object may have one for ever."""

FLAX_JITTED = "jitted_fn"
"""The attribute in which what `flax.nnx.jit` returns holds the function of `jax.jit` it calls (0.12.6 and 0.12.8)."""


def name_of(function: Any) -> str:
    """The name that its executables have, of bounded length."""
    return cut_name(str(getattr(function, "__name__", type(function).__name__)))


def is_jitted(function: Any) -> bool:
    """Whether a callable runs executables of its own: it comes from `jax.jit` or the like, or was compiled ahead.

    A wrapper made with `functools.wraps` counts too: it has the name of what it calls.
    """
    for _ in range(MOST_WRAPPERS):
        if hasattr(function, "lower") or hasattr(function, "runtime_executable"):
            return True
        if (function := getattr(function, "__wrapped__", None)) is None:
            return False
    return True


def has_jitted_inside(function: Any) -> bool:
    """Whether a callable is what `flax.nnx.jit` returns, with the function of `jax.jit` that it calls as an attribute.

    That one's outputs are all state that a step updates. The step itself often returns nothing.
    """
    return is_of(type(function), "flax") and FLAX_JITTED in getattr(function, "__dict__", ())


def holds_arrays(function: Any) -> bool:
    """Whether a callable has arrays as leaves of a pytree."""
    kinds = [type(leaf) for path, leaf in leaves_by_path(function) if path]
    return any(hasattr(kind, "dtype") and hasattr(kind, "shape") for kind in kinds)


def has_state(function: Any) -> bool:
    """Whether a callable is an object with attributes of its own, and no function or method."""
    return not hasattr(type(function), "__get__") and bool(getattr(function, "__dict__", None))


def is_watchable(function: Any, not_jitted: set[str]) -> bool:
    """Whether a watched object may stand in for `function`. Warns where it may not, or where runs may stay unseen.

    `not_jitted` holds the names about which the latter warning was given; this one's is added. Raises what attributes of
    the user's object raise.
    """
    name, jitted = name_of(function), is_jitted(function)
    if holds_arrays(function) or (has_state(function) and not jitted):
        warn(
            f"obs.watch({name}) does nothing: this callable is a pytree with arrays or an object with attributes, which "
            "its own methods, jax.grad and checkpoints would miss in what stands in for it; watch the jitted functions "
            "that it calls, or that take it as an argument, such as your train step"
        )
        return False
    if not jitted and name not in not_jitted:
        not_jitted.add(name)
        warn(
            f"obs.watch({name}): this is no function of jax.jit, so its runs are seen only if what it compiles is "
            f"named {name!r} too; jit it first, or watch the jitted functions that it calls"
        )
    return True
