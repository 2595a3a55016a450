"""Finds out what JAX compiles, from the frames of JAX above a listener of its compile events."""

from __future__ import annotations

import functools
import sys
from types import CellType, FrameType, FunctionType
from typing import Any, NamedTuple

from jaxobs.plugin.frames import callers

PHASES = {
    "/jax/core/compile/jaxpr_trace_duration": "trace",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lower",
    "/jax/core/compile/backend_compile_duration": "backend",
}
"""The phases of a compile, by the events of `jax.monitoring` that say how long each took."""

CACHE_ASKED = "/jax/compilation_cache/compile_requests_use_cache"
CACHE_HIT = "/jax/compilation_cache/cache_hits"
CACHE_READ = "/jax/compilation_cache/cache_retrieval_time_sec"
"""Events of the persistent cache: it was asked, it had the executable, and the seconds in which that was read."""

FRAMES_TO_SEARCH = 8
"""Most caller frames of the listener that are searched; the one wanted was the third or fourth in every version."""

TRACING_FILES = ("_src/pjit.py", "_src/interpreters/partial_eval.py", "_src/api.py")
"""Files of JAX whose frames' locals are read. Up to Python 3.12 reading a user's frame's `f_locals` would make the
frame keep them, arrays too, while it lives."""

CALL_FRAMES_TO_SEARCH = 20
"""Most caller frames searched for the jitted call, the sixth to the twelfth above the listener in every version."""

TRANSFORMATION_FRAMES_TO_SEARCH = 50
"""Most caller frames searched for transformations, each of which takes four. `jax.vmap(jax.hessian(f))` has five, up to
the 29th frame."""


COMPILED_AGAIN = "_pjit_call_impl_python"
"""JAX's function that compiles, for other devices, what was lowered before."""

LOWERINGS = ("_resolve_and_lower", COMPILED_AGAIN)
"""Functions of JAX whose variables tell what is lowered or compiled, and for which arguments."""

TRANSFORMATIONS = frozenset({
    "_pjit_linearize", "_pjit_jvp", "_pjit_batcher", "_pjit_transpose", "_pjit_transpose_fancy", "_pjit_partial_eval",
})  # fmt: skip
"""Functions of JAX that compile the result of a transformation, outside `jit`, of a jitted function."""

JIT_OPTIONS = (
    "donate_argnums", "donate_argnames", "static_argnums", "static_argnames", "in_shardings_leaves",
    "out_shardings_leaves", "in_layouts_leaves", "out_layouts_leaves", "device", "backend", "keep_unused", "inline",
    "compiler_options_kvs",
)  # fmt: skip
"""Arguments of `jax.jit` itself, by the names of the fields of its `PjitInfo`."""


class JitCall(NamedTuple):
    """A call of a jitted function that JAX is about to trace. `names`: those of the arrays, None if not known."""

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
    """A traced function that JAX is about to lower, for arguments with these shardings (None: uncommitted).

    `transformation` is empty where the function itself is lowered. Otherwise what `grad` or `vmap` made of it outside
    any `jit` is lowered, and it names the functions TRANSFORMATIONS that are under way, the innermost first. `source`
    says where the function is defined; `avals` and `names` are those of its arguments, `outputs` counts its results.
    """

    jaxpr: Any
    shardings: tuple[Any, ...]
    transformation: str
    source: str
    avals: tuple[Any, ...]
    names: tuple[str, ...]
    outputs: int


def new_executable(frame: FrameType | None) -> Any:
    """The `LoadedExecutable` that JAX has just made: a local variable above the listener of `backend_compile`.

    None if the compile failed or the variable is missing: the executable's cost is then absent.
    """
    for caller in callers(frame, FRAMES_TO_SEARCH):
        name = {"_cached_compilation": "xla_executable", "from_hlo": "compiled"}.get(caller.f_code.co_name)
        if name is not None:  # the latter for `jax.pmap` up to 0.7
            executable = caller.f_locals.get(name)
            # A future version may keep something else under that name: an executable has `hlo_modules`.
            return executable if hasattr(executable, "hlo_modules") else None
    return None


def traced_function(frame: FrameType | None) -> Any:
    """The function whose trace a listener is called for. None if unknown: nothing then counts as an eager primitive."""
    for caller in callers(frame, FRAMES_TO_SEARCH):
        if caller.f_code.co_filename.endswith(TRACING_FILES):
            function: Any = caller.f_locals.get("fun")
            if type(function).__name__ == "WrappedFun":  # in 0.6 and 0.8
                function = function.f
            # A partial, JAX's own `Partial` too, may hold a function of the user's: that is the one traced.
            if issubclass(type(function), functools.partial):
                function = functools.partial.__dict__["func"].__get__(function)
            if function is not None:
                return function
    return None


def lowered_by_jax(frame: FrameType | None) -> bool | None:
    """Whether a function of JAX's own (`jnp.multiply`) is being lowered, by the source that its jaxpr records.

    Under `jax.grad` outside jit such functions are compiled without a trace event. None if no source is recorded.
    """
    for caller in callers(frame, FRAMES_TO_SEARCH):
        closed = caller.f_locals.get("closed_jaxpr")
        source = getattr(getattr(getattr(closed, "jaxpr", None), "debug_info", None), "func_src_info", None)
        if type(source) is str:  # "multiply at /…/jax/_src/numpy/ufuncs.py:1253"
            package = getattr(sys.modules.get("jax"), "__file__", None) or ""
            return source.rpartition(" at ")[2].startswith(package.removesuffix("__init__.py") or "\0")
    return None


def call_being_traced(frame: FrameType | None) -> JitCall | None:
    """The jitted call whose trace a listener is called for. None if unknown: a recompile's cause is then `other`."""
    names = None
    for caller in callers(frame, CALL_FRAMES_TO_SEARCH):
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
    """The lowering or compile that a listener is called for. None if unknown: shardings are then not compared."""
    above = list(callers(frame, TRANSFORMATION_FRAMES_TO_SEARCH))
    call = next((each for each in above[:CALL_FRAMES_TO_SEARCH] if each.f_code.co_name in LOWERINGS), None)
    found = {} if call is None else call.f_locals
    jaxpr: Any = found.get("jaxpr")
    if call is None or jaxpr is None:
        return None
    shardings, arguments = found.get("in_shardings", ()), found.get("args", ())
    if call.f_code.co_name == COMPILED_AGAIN:
        shardings = [each.sharding if getattr(each, "_committed", False) else None for each in arguments]
    elif len(arguments) == len(shardings):
        # Shardings given to `jit` are the same for uncommitted arrays, which JAX traces apart since 0.9.
        shardings = [
            None if getattr(argument, "committed", None) is False else sharding
            for argument, sharding in zip(arguments, shardings, strict=True)
        ]
    names = (each.f_code.co_name for each in above)
    transformation = " of ".join(name for name in names if name in TRANSFORMATIONS)
    source = jaxpr.jaxpr.debug_info
    avals = tuple(jaxpr.in_avals)
    return Lowering(
        jaxpr, tuple(shardings), transformation, str(source.func_src_info), avals,
        source.safe_arg_names(len(avals)), len(jaxpr.out_avals),
    )  # fmt: skip


# Loops and conditionals of `jax.lax` outside any jit, where each compiles to a program of its own.


PRIMITIVES = {
    "scan": "scan", "while": "while_loop", "cond": "cond", "custom_linear_solve": "custom_linear_solve",
}  # fmt: skip
"""JAX's primitives that contain whole functions, and the public function behind each."""

FUNCTIONS = frozenset({*PRIMITIVES.values(), "fori_loop", "map", "switch"})
"""Public functions that bind one of those primitives. `associative_scan` does not: it runs operation by operation."""

CONTROL_FLOW_FILES = "/jax/_src/lax/control_flow/"
"""Part of the path of the files that define them."""

DISPATCH = "/jax/_src/dispatch.py"
"""The file whose function `apply_primitive` runs a primitive outside jit."""

CONTROL_FLOW_FRAMES = 60
"""Most frames searched above the listener of a compile; `scan` is about the twelfth, `map` a few above."""


def control_flow_outside_jit(primitive: str, frame: FrameType | None) -> str | None:
    """The name of the `jax.lax` function that was called outside jit and is being compiled as `primitive`.

    `frame` is that of the listener of the compile. None for any other primitive, inside jit, and where JAX's files have
    other names: the program then counts as an eager primitive like any other.
    """
    name = PRIMITIVES.get(primitive)
    if name is None:
        return None
    applied = False
    for caller in callers(frame, CONTROL_FLOW_FRAMES):
        file, called = caller.f_code.co_filename, caller.f_code.co_name
        if not applied:
            applied = called == "apply_primitive" and file.endswith(DISPATCH)
        elif "/jax/_src/" not in file:
            break  # the caller of JAX: frames above it belong to other calls
        elif called in FUNCTIONS and CONTROL_FLOW_FILES in file:
            name = called
    return name if applied else None


def plain_parameters(function: Any) -> dict[str, int] | None:
    """The integers and switches that a primitive outside jit is compiled for: `length`, `reverse`, `unroll`, ….

    `function` is what JAX jits to run the primitive, a closure over its parameters. None for any other.
    """
    if type(function) is not FunctionType or not function.__code__.co_filename.endswith(DISPATCH):
        return None
    parameters = closure(function).get("params")
    if type(parameters) is not dict:
        return None
    return {name: value for name, value in parameters.items() if type(value) in (int, bool)}


def closure(function: Any) -> dict[str, Any]:
    """What the closure of a function of JAX's holds, by the names of its variables; empty for anything else."""
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    cells = zip(names, getattr(function, "__closure__", None) or (), strict=False)
    return {name: cell.cell_contents for name, cell in cells if cell != CellType()}  # an empty one raises
