"""Every private name of JAX that jaxobs touches, each with the versions it was seen in and what happens without it.

Those behind `jax.pmap` are in `pmap.py`.

Seen in 0.6.2, 0.8.2, 0.10.2 and 0.11.2 where nothing else is said. Each function answers None (or does nothing) where the
name is missing, so that a future JAX costs a feature and never the job.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, NamedTuple

from jaxobs.plugin.guard import Suppressed

IMMORTAL = 1 << 29
"""A reference count beyond it says that the object is never freed, and nothing about who refers to it (PEP 683)."""

FRAMES_TO_SEARCH = 8
"""The listener's caller frames that are looked at; the frame looked for was the third or fourth in every version."""

TRACING_FILES = ("_src/pjit.py", "_src/interpreters/partial_eval.py", "_src/api.py")
"""Of JAX alone: up to Python 3.12 a frame of the user's keeps `f_locals` that were read, arrays too, while it lives."""

CALL_FRAMES_TO_SEARCH = 20
"""As above for the frames of the jitted call, the sixth to the twelfth above the listener in every version."""

TRACE_SETTINGS = (
    "jax_enable_x64", "jax_default_matmul_precision", "jax_default_device", "jax_numpy_dtype_promotion",
    "jax_numpy_rank_promotion", "jax_explicit_x64_dtypes", "jax_disable_jit", "jax_debug_key_reuse",
    "jax_random_seed_offset", "jax_threefry_partitionable", "jax_threefry_gpu_kernel_lowering",
    "jax_use_direct_linearize", "jax_softmax_custom_jvp", "jax_use_shardy_partitioner", "jax_optimization_level",
    "jax_high_dynamic_range_gumbel", "jax_error_checking_behavior_nan", "jax_error_checking_behavior_divide",
    "jax_error_checking_behavior_oob", "jax_enable_pgle", "jax_pgle_profiling_runs", "jax_xla_profile_version",
    "jax_check_static_indices", "jax_allow_f16_reductions", "jax_no_execution", "jax_dynamic_shapes",
    "eager_constant_folding", "check_vma", "jax_auto_pcast", "jax_custom_jvp3", "jax_custom_vjp3",
    "jax_embedded_constants_max_bytes", "jax_memory_fitting_level", "jax_pallas_auto_assign_collective_ids",
    "jax_pallas_auto_assign_collective_ids_limit", "jax_pallas_enable_debug_checks", "jax_pallas_use_mosaic_gpu",
    "jax_ragged_dot_use_gpu_pallas_triton_lowering", "jax_raise_on_ppermute_sort_diff", "jax_remat3",
    "jax_remat_barrier_no_cotangents", "jax_remove_size_one_mesh_axis_from_type", "jax_scan3",
    "jax_use_emit_pipeline_primitive", "jax_use_hlo_logistic_lowering", "jax_use_simplified_jaxpr_constants",
)  # fmt: skip
"""Settings that are in the key of JAX's cache of traces, as its `config.py` says (`include_in_jit_key`) up to 0.11.2."""

TRACE_CONTEXTS = {
    "compute_on": "compute_on_context_manager",
    "xla_metadata": "xla_metadata_context_manager",
}
"""Context managers that are in that key as well, by the attribute of JAX's `config.py` that holds their value."""

TRANSFORMATIONS = frozenset({
    "_pjit_linearize", "_pjit_jvp", "_pjit_batcher", "_pjit_transpose", "_pjit_transpose_fancy", "_pjit_partial_eval",
})  # fmt: skip
"""JAX's functions that compile what a transformation outside `jit` made of a jitted function."""

JIT_OPTIONS = (
    "donate_argnums", "donate_argnames", "static_argnums", "static_argnames", "in_shardings_leaves",
    "out_shardings_leaves", "in_layouts_leaves", "out_layouts_leaves", "device", "backend", "keep_unused", "inline",
    "compiler_options_kvs",
)  # fmt: skip
"""Arguments of `jax.jit` itself, by the name under which its `PjitInfo` keeps them."""


class JitCall(NamedTuple):
    """A call of a jitted function that JAX is about to trace. `names` are those of the arrays, where JAX tells them."""

    function: Any
    options: tuple[tuple[str, Any], ...]
    parameters: Any
    positional: int
    static_argnums: tuple[int, ...]
    static_args: list[Any]
    static_names: tuple[str, ...]
    dynamic_names: tuple[str, ...]
    trees: list[Any]
    avals: tuple[Any, ...]
    names: tuple[str, ...] | None


class Lowering(NamedTuple):
    """A traced function that JAX is about to lower, for arguments with these shardings; None is an uncommitted one.

    `transformation` is not empty where the function is not lowered itself, but what `grad` or `vmap` made of it outside
    any `jit`; `source` says which function, `avals` and `names` for what.
    """

    jaxpr: Any
    shardings: tuple[Any, ...]
    transformation: str
    source: str
    avals: tuple[Any, ...]
    names: tuple[str, ...]


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


def profiler_state() -> Any:
    """The object whose `profile_session` is not None while `jax.profiler` traces. Without it: no step annotations."""
    return getattr(sys.modules.get("jax._src.profiler"), "_profile_state", None)


def profiler_module() -> Any:
    """The module of jaxlib with `ProfilerSession` and `ProfileOptions`. Without it: no profiler windows of ours.

    `start_trace` and everything else in JAX look `ProfilerSession` up in it each time, also in 0.7.2 and 0.8.0.
    """
    return getattr(sys.modules.get("jax._src.lib"), "_profiler", None)


def jaxlib_version() -> tuple[int, ...]:
    """(0, 8, 2), say; empty where it cannot be told."""
    version = getattr(sys.modules.get("jax._src.lib"), "version", ())
    return tuple(part for part in version if isinstance(part, int))


def new_executable(frame: FrameType | None) -> Any:
    """The `LoadedExecutable` that JAX has just made: a local variable above the listener of `backend_compile`.

    None where the compile failed or the variable is not there: the executable's cost is then absent.
    """
    for caller in _callers(frame):
        name = {"_cached_compilation": "xla_executable", "from_hlo": "compiled"}.get(caller.f_code.co_name)
        if name is not None:  # the latter for `jax.pmap` up to 0.7
            executable = caller.f_locals.get(name)
            # `hlo_modules` tells the executable from whatever else a future version keeps under that name.
            return executable if hasattr(executable, "hlo_modules") else None
    return None


def traced_function(frame: FrameType | None) -> Any:
    """The function whose trace a listener was told of. None: then nothing is taken for an eager primitive."""
    for caller in _callers(frame):
        if caller.f_code.co_filename.endswith(TRACING_FILES):
            function: Any = caller.f_locals.get("fun")
            if type(function).__name__ == "WrappedFun":  # in 0.6 and 0.8
                function = function.f
            # What JAX's own `Partial` holds may be the user's.
            if issubclass(type(function), functools.partial):
                function = functools.partial.__dict__["func"].__get__(function)
            if function is not None:
                return function
    return None


def lowered_by_jax(frame: FrameType | None) -> bool | None:
    """Whether what is being lowered is a function of JAX's own (`jnp.multiply`), by the source its jaxpr remembers.

    Under `jax.grad` outside jit such functions are compiled without a trace event. None where nothing is remembered.
    """
    for caller in _callers(frame):
        closed = caller.f_locals.get("closed_jaxpr")
        source = getattr(getattr(getattr(closed, "jaxpr", None), "debug_info", None), "func_src_info", None)
        if type(source) is str:  # "multiply at /…/jax/_src/numpy/ufuncs.py:1253"
            package = getattr(sys.modules.get("jax"), "__file__", None) or ""
            return source.rpartition(" at ")[2].startswith(package.removesuffix("__init__.py") or "\0")
    return None


def call_being_traced(frame: FrameType | None) -> JitCall | None:
    """The call whose trace a listener was told of. None: then a recompile's cause is `other`."""
    names = None
    for caller in _callers(frame, CALL_FRAMES_TO_SEARCH):
        name = caller.f_code.co_name
        if name not in ("_trace_for_jit", "_infer_params", "_infer_params_internal"):
            continue
        found = caller.f_locals
        names = getattr(found.get("dbg"), "arg_names", None) or names
        call: Any = found.get("arg_signature") or found.get("signature")  # since 0.9, and before
        info = found.get("ji")
        if not hasattr(call, "dynamic_arg_treedefs"):
            continue
        return JitCall(
            found.get("fun"),
            tuple((option, getattr(info, option, None)) for option in JIT_OPTIONS),
            getattr(info, "fun_signature", None),
            len(found.get("args", ())),
            tuple(getattr(info, "static_argnums", ())),
            list(call.static_args),
            tuple(call.static_arg_names),
            tuple(call.dynamic_arg_names),
            list(call.dynamic_arg_treedefs),
            tuple(found.get("avals", ())),
            names if type(names) is tuple else None,
        )
    return None


def lowering(frame: FrameType | None) -> Lowering | None:
    """What a listener was told is being lowered, or compiled. None: then shardings are not compared."""
    found: dict[str, Any] | None = None
    shardings: Sequence[Any] = ()
    transformation = ""
    for caller in _callers(frame, CALL_FRAMES_TO_SEARCH):
        name = caller.f_code.co_name
        if name in ("_resolve_and_lower", "_pjit_call_impl_python") and found is None:
            found = caller.f_locals
            shardings = found.get("in_shardings", ())
            arguments = found.get("args", ())
            if len(arguments) == len(shardings):
                # Given to `jit`, they are the same for arrays that lie elsewhere yet, which JAX traces apart since 0.9.
                shardings = [
                    None if getattr(argument, "committed", None) is False else sharding
                    for argument, sharding in zip(arguments, shardings, strict=True)
                ]
            if name == "_pjit_call_impl_python":
                # It was lowered before, and is compiled for other devices now.
                shardings = [
                    argument.sharding if getattr(argument, "_committed", False) else None
                    for argument in found.get("args", ())
                ]
        elif name in TRANSFORMATIONS:
            transformation = name
            break
    jaxpr: Any = None if found is None else found.get("jaxpr")
    if found is None or jaxpr is None:
        return None
    source = jaxpr.jaxpr.debug_info
    avals = tuple(jaxpr.in_avals)
    return Lowering(
        jaxpr, tuple(shardings), transformation, str(source.func_src_info), avals,
        source.safe_arg_names(len(avals)),
    )  # fmt: skip


def trace_context() -> list[tuple[str, Any]]:
    """Settings and contexts of this thread on which a trace depends, as they are now; the missing ones are left out."""
    config: Any = sys.modules.get("jax._src.config")
    holders = getattr(getattr(config, "config", None), "_value_holders", {})
    values = [(name, holders[name].value) for name in TRACE_SETTINGS if name in holders]
    for name, attribute in TRACE_CONTEXTS.items():
        manager = getattr(config, attribute, None)
        if manager is not None:
            values.append((name, manager.value))
    mesh = sys.modules.get("jax._src.mesh")
    resources = getattr(mesh, "thread_resources", None)
    by_with = getattr(getattr(resources, "env", None), "physical_mesh", None)
    # In `config.py` up to 0.10, in `mesh.py` since.
    holder = next(
        (
            found
            for module in (config, mesh)
            if (found := getattr(module, "abstract_mesh_context_manager", None)) is not None
        ),
        None,
    )
    by_set_mesh = getattr(holder, "value", None)
    values.append(("mesh", (by_with, by_set_mesh)))
    return values


def executables_alive(function: Any) -> int | None:
    """How many executables a jitted function has by now. None for anything else, and without the name."""
    count = getattr(function, "_cache_size", None)
    return int(count()) if callable(count) else None


def array_type() -> type | None:
    """The class of JAX's arrays. None without the name, and where there is no interpreter lock."""
    array = getattr(sys.modules.get("jax._src.array"), "ArrayImpl", None)
    free_threaded = not getattr(sys, "_is_gil_enabled", lambda: True)()
    return array if isinstance(array, type) and not free_threaded else None


def committed_to(array: Any) -> str:
    """The type of the sharding that an array is committed to; empty for an uncommitted one, and for no array of JAX's."""
    return type(array.sharding).__name__ if getattr(array, "_committed", False) else ""


def arrays_alive() -> int | None:
    """About how many arrays there are, deleted ones included; some twenty too many, and never too few.

    Every object of a class made at run time holds a reference to its class, so that the count of those tells without
    looking at any. None without `array_type`.
    """
    array = array_type()
    count = sys.getrefcount(array) if array is not None else IMMORTAL
    return count if count < IMMORTAL else None


def is_compiling(frame: FrameType) -> bool:
    """Whether a thread with this innermost frame is in XLA's compiler, which gives up the interpreter lock."""
    code = frame.f_code
    return code.co_name.startswith("backend_compile") and code.co_filename.endswith("jax/_src/compiler.py")


@functools.cache
def own_packages() -> tuple[str, ...]:
    """How the files of JAX and of the probe begin: frames in them are not the user's. To be asked with JAX imported."""
    packages = ("jax", "jaxlib", "jaxobs.jax_compat", "jaxobs.measure", "jaxobs.probe")
    files = [getattr(sys.modules.get(name), "__file__", None) for name in packages]
    folders = [file.removesuffix("__init__.py") for file in files if file]
    return (*folders, "<frozen ")


def is_listening(listener: Callable[..., Any]) -> bool:
    """Whether a duration listener is still registered. Without the name: assumed so."""
    monitoring = sys.modules.get("jax._src.monitoring")
    listeners = getattr(monitoring, "get_event_duration_listeners", None)
    # Not `in`, which asks the `__eq__` of others' listeners.
    return any(found is listener for found in listeners()) if callable(listeners) else True


def unregister_listeners(event: Any, duration: Any, scalar: Any) -> None:
    """Take listeners out. Public from 0.8, private names before; without either they stay and do nothing."""
    monitoring = sys.modules.get("jax._src.monitoring")
    for listener, names in (
        (event, ("unregister_event_listener", "_unregister_event_listener_by_callback")),
        (
            duration,
            ("unregister_event_duration_listener", "_unregister_event_duration_listener_by_callback"),
        ),
        (scalar, ("unregister_scalar_listener", "_unregister_scalar_listener_by_callback")),
    ):
        remove = next((found for name in names if (found := getattr(monitoring, name, None))), None)
        if remove is not None:
            with Suppressed(AssertionError, ValueError):  # somebody cleared the listeners before us
                remove(listener)


def _callers(frame: FrameType | None, limit: int = FRAMES_TO_SEARCH) -> list[FrameType]:
    callers: list[FrameType] = []
    while frame is not None and len(callers) < limit:
        callers.append(frame)
        frame = frame.f_back
    return callers
