"""What JAX compiles, as its own frames above a listener of its compile events tell it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any, NamedTuple

FRAMES_TO_SEARCH = 8
"""The listener's caller frames that are looked at; the frame looked for was the third or fourth in every version."""

TRACING_FILES = ("_src/pjit.py", "_src/interpreters/partial_eval.py", "_src/api.py")
"""Of JAX alone: up to Python 3.12 a frame of the user's keeps `f_locals` that were read, arrays too, while it lives."""

CALL_FRAMES_TO_SEARCH = 20
"""As above for the frames of the jitted call, the sixth to the twelfth above the listener in every version."""

TRANSFORMATION_FRAMES_TO_SEARCH = 50
"""As above: each transformation takes four more frames. `jax.vmap(jax.hessian(f))` has five, up to the 29th frame."""


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
    any `jit`: the last one first, where there were several. `source` says which function, `avals` and `names` for what.
    """

    jaxpr: Any
    shardings: tuple[Any, ...]
    transformation: str
    source: str
    avals: tuple[Any, ...]
    names: tuple[str, ...]


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
    transformation: list[str] = []
    for above, caller in enumerate(_callers(frame, TRANSFORMATION_FRAMES_TO_SEARCH)):
        name = caller.f_code.co_name
        if (
            above < CALL_FRAMES_TO_SEARCH
            and name in ("_resolve_and_lower", "_pjit_call_impl_python")
            and found is None
        ):
            found = caller.f_locals
            shardings = found.get("in_shardings", ())
            arguments = found.get("args", ())
            if name == "_pjit_call_impl_python":
                # It was lowered before, and is compiled for other devices now.
                shardings = [
                    argument.sharding if getattr(argument, "_committed", False) else None
                    for argument in arguments
                ]
            elif len(arguments) == len(shardings):
                # Given to `jit`, they are the same for arrays that lie elsewhere yet, which JAX traces apart since 0.9.
                shardings = [
                    None if getattr(argument, "committed", None) is False else sharding
                    for argument, sharding in zip(arguments, shardings, strict=True)
                ]
        elif name in TRANSFORMATIONS:
            transformation.append(name)
    jaxpr: Any = None if found is None else found.get("jaxpr")
    if found is None or jaxpr is None:
        return None
    source = jaxpr.jaxpr.debug_info
    avals = tuple(jaxpr.in_avals)
    return Lowering(
        jaxpr, tuple(shardings), " of ".join(transformation), str(source.func_src_info), avals,
        source.safe_arg_names(len(avals)),
    )  # fmt: skip


def is_compiling(frame: FrameType) -> bool:
    """Whether a thread with this innermost frame is in XLA's compiler, which gives up the interpreter lock."""
    code = frame.f_code
    return code.co_name.startswith("backend_compile") and code.co_filename.endswith("jax/_src/compiler.py")


def _callers(frame: FrameType | None, limit: int = FRAMES_TO_SEARCH) -> list[FrameType]:
    callers: list[FrameType] = []
    while frame is not None and len(callers) < limit:
        callers.append(frame)
        frame = frame.f_back
    return callers
