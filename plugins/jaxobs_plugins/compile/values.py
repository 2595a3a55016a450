"""What part of JAX's cache key looks like as a short text, without calling anything of the user's.

Only values whose type is exactly one of Python's or JAX's own are looked into. Of every other object the text is its
type's name: its `__repr__`, `__eq__`, `__hash__` and `__getattr__` are the user's, may be slow, and may raise.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from types import BuiltinFunctionType, FunctionType
from typing import Any

from jaxobs.derive.miss_cause import Value

TEXT_LENGTH = 120
"""Characters of a value that are kept: a label holds 200, and the old and the new one stand beside each other."""

ITEMS_SHOWN = 8
DEPTH = 3
INTEGER_BITS = 256
"""A larger integer is told by its size: writing it out takes time quadratic in its length."""

UNCOMMITTED = "uncommitted"
CONTAINERS = ((tuple, "(", ")"), (list, "[", "]"), (dict, "{", "}"))


def value_of(thing: Any, depth: int = DEPTH) -> Value:
    """A static argument, an option or a setting."""
    kind = type(thing)
    value = None
    if type(kind) is type:  # a metaclass may have an `__eq__` of its own
        value = _of_python(thing, kind, depth)
    if value is None and is_of(kind, "jaxlib", "jax", "numpy", "ml_dtypes"):
        value = _of_jax(thing, kind)
    return value or Value(name_of(kind), id(thing))


def _of_python(thing: Any, kind: type, depth: int) -> Value | None:
    if kind in (str, bytes):
        # A text that was cut is told apart by its hash, which for these types is Python's own.
        whole = len(thing) <= TEXT_LENGTH
        return Value(repr(thing)) if whole else Value(f"{thing[:TEXT_LENGTH]!r}…", hash(thing) or 1)
    if kind is int and thing.bit_length() > INTEGER_BITS:
        return Value("int", hash(thing) or 1)
    if kind in (bool, int, float, type(None)):
        return Value(repr(thing))
    if kind in (tuple, list, dict) and depth:
        return _container(thing, depth)
    if kind in (FunctionType, BuiltinFunctionType):
        return Value(clipped(f"function {thing.__name__}"), id(thing))
    return Value(f"class {name_of(thing)}", id(thing)) if kind is type else None


def _container(thing: Any, depth: int) -> Value:
    if type(thing) is dict:
        pairs = [(value_of(key, depth - 1), value_of(item, depth - 1)) for key, item in _first(thing.items())]
        values = list(itertools.chain.from_iterable(pairs))
        texts = [f"{key.text}: {item.text}" for key, item in pairs]
    else:
        values = [value_of(item, depth - 1) for item in _first(thing)]
        texts = [value.text for value in values]
    more = ["…"] if len(thing) > ITEMS_SHOWN else []
    inner = ", ".join(texts + more)
    opening, closing = next((first, last) for kind, first, last in CONTAINERS if kind is type(thing))
    comma = "," if type(thing) is tuple and len(values) == 1 else ""
    text = f"{opening}{inner}{comma}{closing}"
    # One identity for all: that of each, mixed. What is beyond the items shown is told apart by the object.
    identities = [value.identity for value in values] + ([id(thing)] if more else [])
    identities += [hash(text)] if len(text) > TEXT_LENGTH else []
    identity = hash(tuple(identities)) or 1 if any(identities) else 0
    return Value(clipped(text), identity)


def _first(items: Iterable[Any]) -> Iterable[Any]:
    return itertools.islice(items, ITEMS_SHOWN)


def _of_jax(thing: Any, kind: type) -> Value | None:
    text = None
    if hasattr(thing, "axis_names") and hasattr(thing, "empty"):
        text = mesh_text(thing)
    elif hasattr(kind, "platform") and hasattr(kind, "device_kind"):
        text = device_text(thing)
    elif hasattr(kind, "device_set"):
        text = sharding_text(thing)
    elif kind.__name__ == "UnspecifiedValue":
        text = "unspecified"
    elif hasattr(kind, "__members__"):  # one of JAX's own enumerations
        text = f"{kind.__name__}.{thing.name}"
    elif kind.__module__ == "numpy" and hasattr(kind, "item") and not hasattr(kind, "__len__"):
        text = clipped(f"{kind.__name__}({thing.item()!r})")
    elif kind.__module__ in ("numpy", "numpy.dtypes", "ml_dtypes") and not hasattr(kind, "__array__"):
        text = clipped(str(thing))
    return None if text is None else Value(text)


def device_text(device: Any) -> str:
    """As in `cpu:0`."""
    return f"{device.platform}:{device.id}"


def mesh_text(mesh: Any) -> str:
    """Axes and sizes, as in `(data=4, model=2)`, explicit axes marked, and the devices where there are any."""
    if mesh.empty:
        return "none"
    axes = mesh.shape_tuple
    kinds = getattr(mesh, "axis_types", None)
    kinds = kinds if type(kinds) is tuple and len(kinds) == len(axes) else (None,) * len(axes)
    text = ", ".join(
        f"{bare(name)}={size}" + (" explicit" if getattr(kind, "name", "") == "Explicit" else "")
        for (name, size), kind in zip(axes, kinds, strict=True)
    )
    devices = getattr(mesh, "_flat_devices_tuple", None)
    if not devices:
        return clipped(f"({text})")
    numbers = [device.id for device in devices]
    if numbers == list(range(numbers[0], numbers[0] + len(numbers))):
        which = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
    else:
        which = ",".join(map(str, numbers[:ITEMS_SHOWN]))
        which += f"… #{hash(tuple(numbers)) & 0xFFFF:04x}" if len(numbers) > ITEMS_SHOWN else ""
    return clipped(f"({text}) on {devices[0].platform}:{which}")


def sharding_text(sharding: Any) -> str:
    """How an argument lies on devices: its partition over a mesh, its device, or that it was free to be moved."""
    kind = type(sharding)
    if sharding is None:
        return UNCOMMITTED
    if not is_of(kind, "jax", "jaxlib"):
        return name_of(kind)
    if not hasattr(kind, "device_set"):
        return UNCOMMITTED
    memory = getattr(sharding, "memory_kind", None)
    where = "" if memory in (None, "device", "unpinned_host") else f" in {memory}"
    spec = getattr(sharding, "spec", None)
    if spec is not None:
        return clipped(f"{spec_text(spec)} over {mesh_text(sharding.mesh)}{where}")
    devices = sharding.device_set
    if len(devices) == 1:
        return device_text(next(iter(devices))) + where
    return clipped(f"{kind.__name__} over {len(devices)} devices{where}")


def spec_text(spec: Any) -> str:
    """A partition spec, as in `P('data', None)`."""
    parts = [
        f"({', '.join(plain(name) for name in part)})" if type(part) is tuple else plain(part)
        for part in tuple(spec)
    ]
    return f"P({', '.join(parts)})"


def dtype_text(dtype: Any) -> str:
    """As in `float32` or `key<fry>`."""
    return str(dtype) if is_of(type(dtype), "numpy", "jax", "ml_dtypes") else name_of(type(dtype))


def plain(thing: Any) -> str:
    """A dictionary's key or an axis's name: as it is where it is text or a number, else its type."""
    return repr(thing)[:TEXT_LENGTH] if type(thing) in (str, int, bool, type(None)) else name_of(type(thing))


def bare(thing: Any) -> str:
    """As `plain`, text without quotes."""
    return clipped(thing) if type(thing) is str else plain(thing)


def name_of(kind: type) -> str:
    """A type's own name, asked of `type` itself: a metaclass may answer otherwise."""
    return clipped(type.__dict__["__name__"].__get__(kind))


def is_of(kind: type, *packages: str) -> bool:
    """Whether a type was defined by one of these packages, not derived from one of theirs by the user."""
    module = type.__dict__["__module__"].__get__(kind)
    return type(module) is str and module.partition(".")[0] in packages


def clipped(text: str) -> str:
    """At most TEXT_LENGTH characters."""
    return text if len(text) <= TEXT_LENGTH else f"{text[: TEXT_LENGTH - 1]}…"
