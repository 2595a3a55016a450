"""Reads the signature that a function is being compiled for from JAX's frames: shapes and types, never values.

JAX has already flattened, named and abstracted the arguments; none of that is repeated. A signature costs 2 to 4 µs per
container or array (`make benchmark NAME=compile_cost`), a tenth of what JAX spends on tracing it.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Iterator
from typing import Any

from jaxobs.jax_compat.compiling import JitCall
from jaxobs.jax_compat.jit import trace_context
from jaxobs.jax_compat.objects import clipped, is_of, mesh_text, name_of, plain, sharding_text
from jaxobs_plugins.probes.compile.miss_cause import Leaf, Signature, Value
from jaxobs_plugins.probes.compile.values import (
    bound_arguments,
    dtype_text,
    function_text,
    value_of,
)

POSITIONAL, KEYWORD = Value("positional"), Value("keyword")
"""How an argument was passed."""


def signature_of(call: JitCall) -> Signature:
    """The signature of a call that is about to be traced; its shardings are known only when it is lowered.

    Raises TypeError if its function allows no weak reference.
    """
    function = weakref.ref(call.function)
    structure: list[tuple[str, Value]] = []
    statics = iter(call.static_args)
    static_positions = {number for number in call.static_argnums if number < call.positional}
    trees = iter(call.trees)
    values: list[tuple[str, Value]] = []
    bindings: list[tuple[str, Value]] = []
    for position in range(call.positional):
        name = parameter_name(call.parameters, position)
        if position in static_positions:
            values.append((name, value_of(next(statics, None))))
        else:
            bindings.append((name, POSITIONAL))
            structure += containers_of(name, next(trees, None))
    for keyword in call.dynamic_names:
        name = keyword_name(call.parameters, keyword)
        bindings.append((name, KEYWORD))
        structure += containers_of(name, next(trees, None))
    values += [
        (keyword_name(call.parameters, keyword), value_of(next(statics, None)))
        for keyword in call.static_names
    ]
    bound = bound_arguments(call.function)
    values += [(name, value_of(value)) for name, value in bound]
    return Signature(
        Value(function_text(call.function), id(function)),
        tuple((name, value_of(value)) for name, value in call.options),
        context_now(),
        tuple(bindings),
        tuple(values),
        tuple(structure),
        call.names or (),
        leaves_of(call.avals),
        (),
        bool(bound),
        function,
    )


def untraced_signature(names: tuple[str, ...], avals: tuple[Any, ...]) -> Signature:
    """The signature of what a transformation made of a function outside `jit`: only the arrays it takes are known."""
    names = tuple(name or f"args[{number}]" for number, name in enumerate(names))
    return Signature(Value(""), (), context_now(), (), (), (), names, leaves_of(avals), ())


def context_now() -> tuple[tuple[str, Value], ...]:
    """The settings and contexts of this thread that are part of JAX's cache key."""
    context = []
    for name, thing in trace_context():
        if name == "mesh":
            found = {mesh_text(mesh) for mesh in thing if hasattr(mesh, "axis_names")}
            context.append((name, Value(" and ".join(sorted(found - {"none"})) or "none")))
        else:
            context.append((name, value_of(thing)))
    return tuple(context)


def leaves_of(avals: tuple[Any, ...]) -> tuple[Leaf, ...]:
    """The arrays; equal ones share one `Leaf`, so that thousands of few shapes take little memory."""
    known: dict[tuple[Any, ...], Leaf] = {}
    dtypes: dict[int, str] = {}
    leaves = []
    for aval in avals:
        if not is_of(type(aval), "jax"):
            leaves.append(Leaf((), name_of(type(aval)), False))
            continue
        dtype = getattr(aval, "dtype", None)
        text = dtypes.get(id(dtype))
        if text is None:
            text = dtypes[id(dtype)] = name_of(type(aval)) if dtype is None else dtype_text(dtype)
        key = (tuple(getattr(aval, "shape", ())), text, bool(getattr(aval, "weak_type", False)))
        leaf = known.get(key)
        if leaf is None:
            shape = tuple(size if type(size) is int else name_of(type(size)) for size in key[0])
            leaf = known[key] = Leaf(shape, *key[1:])
        leaves.append(leaf)
    return tuple(leaves)


def shardings_of(shardings: tuple[Any, ...], count: int) -> tuple[str, ...]:
    """The texts of the last `count` shardings; those before them belong to constants of the function."""
    kept = shardings[len(shardings) - count :]
    texts = {
        number: sharding_text(sharding) for number, sharding in {id(each): each for each in kept}.items()
    }
    return tuple(texts[id(each)] for each in kept)


def containers_of(root: str, definition: Any) -> Iterator[tuple[str, Value]]:
    """The containers of an argument by their paths, from JAX's tree definition."""
    pending = [(root, definition)]
    while pending:
        path, tree = pending.pop()
        node = tree.node_data() if tree is not None else None
        if node is None:
            continue
        kind, data = node
        children = tree.children()
        value, keys = container(kind, data, len(children))
        yield path, value
        pending += [
            (f"{path}{key}", child) for key, child in zip(reversed(keys), reversed(children), strict=True)
        ]


def container(kind: Any, data: Any, size: int) -> tuple[Value, list[str]]:
    """The description of a container, and the keys of its children as they appear in paths."""
    if kind is type(None):
        return Value("None"), []
    if kind is dict and type(data) is list and len(data) == size:
        keys = [plain(key) for key in data]
        return _listed("dict", keys), [f"[{key}]" for key in keys]
    if kind is tuple or kind is list:
        return Value(f"{kind.__name__} of {size}"), [f"[{number}]" for number in range(size)]
    fields = data.__dict__.get("_fields") if type(data) is type else None  # a named tuple's data is its class
    name = name_of(data if type(data) is type else kind)
    if type(fields) is tuple and len(fields) == size and all(type(field) is str for field in fields):
        return _listed(name, list(fields)), [f".{field}" for field in fields]
    described = value_of(data)
    text = name if data is None or type(data) is type else clipped(f"{name} of {size} with {described.text}")
    return Value(text, described.identity), [f"[<flat index {number}>]" for number in range(size)]


def _listed(name: str, keys: list[str]) -> Value:
    text = f"{name}({', '.join(keys)})"
    short = clipped(text)
    if short == text:
        return Value(text)
    # `hash` of texts differs in each process, and ranks and runs are compared.
    digest = hashlib.blake2b(repr(keys).encode("utf-8", "surrogatepass"), digest_size=3).hexdigest()
    return Value(f"{name} of {len(keys)} #{digest}")


def parameter_name(parameters: Any, position: int) -> str:
    """The name of a positional argument; `args[1]` where the function's parameters are unknown."""
    for number, parameter in enumerate(getattr(parameters, "parameters", {}).values()):
        if parameter.kind is parameter.VAR_POSITIONAL:
            return f"{parameter.name}[{position - number}]"
        if number == position:
            return str(parameter.name)
    return f"args[{position}]"


def keyword_name(parameters: Any, keyword: str) -> str:
    """The name of an argument passed by keyword; `kwargs['scale']` where the function takes arbitrary ones."""
    for parameter in getattr(parameters, "parameters", {}).values():
        if parameter.kind is parameter.VAR_KEYWORD and keyword not in parameters.parameters:
            return f"{parameter.name}['{keyword}']"
    return keyword
