"""`jaxobs.cost()`, `jaxobs.memory()` and `jaxobs.roofline()`: what one function does, holds and reaches, on demand.

These compile and run what they are given: they are for a notebook or a test, not for the inside of a training step.
"""

from __future__ import annotations

import importlib.metadata
import statistics
from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any

from jaxobs.config import load_settings
from jaxobs.cost_model import module_cost
from jaxobs.hardware.known_peaks import known_peaks
from jaxobs.hardware.peaks import Peaks
from jaxobs.jax_compat.memory import memory_of
from jaxobs.jax_compat.runtime import leave_out
from jaxobs.model.clock import perf_counter
from jaxobs.model.cost import Cost, ModuleCost
from jaxobs.model.peak_memory import KEPT
from jaxobs.plugin.custom_calls import load_rules
from jaxobs.plugin.log import warn
from jaxobs.probe.watch.watched import Watched, state_of
from jaxobs.report.measured_run import Roofline, measured_run
from jaxobs.report.peak_memory import Memory
from jaxobs.roofline_model.bounds import bound_time, total_bound

WARM_UP = 3
MIN_BATCH_SECONDS = 0.005
"""Calls are timed in batches of at least this long, blocked once at the end: one call alone would time its dispatch."""

MEASURE_SECONDS = 1.0
MIN_BATCHES, MAX_BATCHES = 5, 200
MAX_CALLS = 100
"""Most calls in a batch, whose results are all alive at once."""

MAX_COPIES = 256 * 2**20
"""Bytes of arguments copied for one batch, where there is more than one call in it: a call that updates a row of a
donated cache takes microseconds, and a hundred copies of the cache would fill the memory."""


def cost(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Cost:
    """What one run of the compiled function must do on one device.

    `function` may be plain, jitted or watched; it is compiled for these arguments (arrays or `jax.ShapeDtypeStruct`),
    not run. Raises what tracing and compiling raise, and HloDecodeError (a ValueError) where its module cannot be read.
    """
    jitted, args = jitted_function(function, "cost", args)
    return _module(_compiled(jitted, args, kwargs).runtime_executable()).cost


def memory(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Memory:
    """What one run of the compiled function holds of a device's memory, and which lines of yours hold it at the peak.

    `function` may be plain, jitted or watched; it is compiled for these arguments (arrays or `jax.ShapeDtypeStruct`),
    not run. Raises what tracing and compiling raise, and ValueError where JAX or the backend does not tell it.
    """
    jitted, args = jitted_function(function, "memory", args)
    executable = _compiled(jitted, args, kwargs).runtime_executable()
    return memory_held(executable, getattr(jitted, "__name__", "function"))


def memory_held(executable: Any, function: str) -> Memory:
    """What an executable of JAX's runtime holds, named as its function. Raises ValueError where it is not told."""
    sums, buffers = memory_of(executable)
    module = _module(executable, buffers)
    found = module.memory
    wrong = module.memory_reason if found is None else found.differs(dict(sums))
    if found is None or wrong:
        raise ValueError(f"the memory is not known: {wrong}")
    return Memory({"function": function, "executable": module.fingerprint, **found.to_dict(KEPT)})


def roofline(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Roofline:
    """Time a function and set the time against the roofline of the device it runs on.

    The function, plain, jitted or watched, is compiled for these arguments, which are all its own; it is warmed up and
    run in batches, each blocked until its results are ready. What it donates is copied for each run, and NumPy arrays
    are put on the device, outside the time.
    """
    import jax

    jitted, args = jitted_function(function, "roofline", args)
    leaves = jax.tree_util.tree_leaves((args, kwargs))
    if any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in leaves):
        raise ValueError(
            "roofline() runs the function, so its arguments are arrays; jax.ShapeDtypeStruct is for cost()"
        )
    compiled = _compiled(jitted, args, kwargs)
    module = _module(compiled.runtime_executable())
    peaks = _peaks(compiled.runtime_executable().local_devices())
    working_set = _working_set(compiled)
    bound = total_bound(bound_time(operation.cost, peaks, working_set) for operation in module.operations)
    times = _time(jitted, args, kwargs, donated=_donates(compiled))
    quartiles = statistics.quantiles(times, n=4)
    median, spread = statistics.median(times), quartiles[2] - quartiles[0]
    return measured_run(module, bound, median, spread, len(times), peaks)


def jitted_function(function: Any, asker: str, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """The function as a jitted one, and its arguments.

    A watched function is unwrapped, so that its runs here count in no loop. A bound jitted method becomes its function
    with the object as first argument, as its `.lower` is the function's, which knows no object.
    """
    import jax

    leave_out(__file__)  # the lines of what is jitted here are its callers'
    while True:
        if isinstance(function, Watched):
            function = state_of(function).function
        elif isinstance(function, MethodType) and hasattr(function.__func__, "lower"):
            function, args = function.__func__, (function.__self__, *args)
        else:
            break
    if not callable(function):
        what = type(function).__name__
        raise TypeError(f"{asker}() takes a function first, not an object of type {what!r}")
    return (function if hasattr(function, "lower") else jax.jit(function)), args


def _compiled(jitted: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    compiled = jitted.lower(*args, **kwargs).compile()
    if not hasattr(compiled, "runtime_executable"):
        raise TypeError(
            f"{jitted!r} compiles to an object of type {type(compiled).__name__}: give a function of jax.jit"
        )
    return compiled


def serialized_module(executable: Any) -> bytes:
    """The `HloModuleProto` of an executable. Raises what the backend raises where it gives none."""
    serialized: bytes = executable.hlo_modules()[0].as_serialized_hlo_module_proto()
    return serialized


def _module(executable: Any, buffers: bytes = b"") -> ModuleCost:
    return module_cost(serialized_module(executable), custom_call_rules=load_rules(warn), buffers=buffers)


def _donates(compiled: Any) -> bool:
    import jax

    leaves = jax.tree_util.tree_leaves(compiled.args_info, is_leaf=lambda leaf: hasattr(leaf, "donated"))
    return any(leaf.donated for leaf in leaves)


def _working_set(compiled: Any) -> float | None:
    memory = compiled.memory_analysis()
    if memory is None:
        return None
    touched = memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes
    return float(touched - memory.alias_size_in_bytes)


def _time(jitted: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, donated: bool) -> list[float]:
    """Seconds of one run, from each batch. The jitted function is called, as it knows which arguments are static."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    wait: Callable[[Any], Any] = jax.block_until_ready

    def on_device(leaf: Any) -> Any:
        return jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf

    def copied(leaf: Any) -> Any:
        return jnp.array(leaf) if isinstance(leaf, jax.Array) else leaf

    given = jax.tree_util.tree_map(on_device, (args, kwargs))

    def arguments() -> tuple[tuple[Any, ...], dict[str, Any]]:
        fresh: tuple[tuple[Any, ...], dict[str, Any]] = given
        return jax.tree_util.tree_map(copied, fresh) if donated else fresh

    def batch(size: int) -> float:
        prepared = wait([arguments() for _ in range(size)])
        started = perf_counter()
        wait([jitted(*positional, **named) for positional, named in prepared])
        return (perf_counter() - started) / size

    single = min(batch(1) for _ in range(WARM_UP))
    leaves = jax.tree_util.tree_leaves(given) if donated else []
    copies = sum(leaf.nbytes for leaf in leaves if isinstance(leaf, jax.Array))
    most = min(MAX_CALLS, MAX_COPIES // max(1, copies))
    size = max(1, min(most, round(MIN_BATCH_SECONDS / max(single, 1e-7))))
    wanted = round(MEASURE_SECONDS / max(single * size, 1e-6))
    return [batch(size) for _ in range(max(MIN_BATCHES, min(MAX_BATCHES, wanted)))]


def _peaks(devices: Sequence[Any]) -> Peaks:
    """The peaks of one of the local devices that work at once."""
    kind, platform = devices[0].device_kind, devices[0].platform
    jaxlib = importlib.metadata.version("jaxlib")
    return known_peaks(kind, platform, jaxlib, load_settings().to_dict(), devices=len(devices))
