"""Short texts for objects that may be of the user's types, and for where arrays lie; no method of theirs is called.

Only objects whose type is exactly one of Python's or JAX's own are read. For every other object the text is the name of
its type: its `__repr__`, `__eq__`, `__hash__` and `__getattr__` are the user's, may be slow, and may raise. JAX is not
imported: only the objects' attributes are read.
"""

from __future__ import annotations

from typing import Any

TEXT_LENGTH = 120
"""Most characters of a value's text, of which a label shows two, the old and the new; it holds 200."""


def plain(thing: Any) -> str:
    """The `repr` of a dictionary's key or an axis's name if it is text, a number or None, else the name of its type."""
    return repr(thing)[:TEXT_LENGTH] if type(thing) in (str, int, bool, type(None)) else name_of(type(thing))


def bare(thing: Any) -> str:
    """The text that `plain` gives, but strings without quotes."""
    return clipped(thing) if type(thing) is str else plain(thing)


def name_of(kind: type) -> str:
    """A type's own name, read through `type` itself, because a metaclass may define `__name__`."""
    return clipped(type.__dict__["__name__"].__get__(kind))


def is_of(kind: type, *packages: str) -> bool:
    """Whether a type is defined in one of these packages; a user's subclass of such a type is not."""
    try:
        module = type.__dict__["__module__"].__get__(kind)
    except AttributeError:  # it was made where there is no `__name__`
        return False
    return type(module) is str and module.partition(".")[0] in packages


def has_any(kind: type, *names: str) -> bool:
    """Whether a type or one that it inherits from has one of these attributes; no metaclass is asked."""
    mro, dictionary = type.__dict__["__mro__"], type.__dict__["__dict__"]
    return any(name in dictionary.__get__(base) for base in mro.__get__(kind) for name in names)


def own_attributes(thing: Any) -> dict[str, Any] | None:
    """The attributes of an object, without a call of its type's `__getattr__`; None for one that has none of its own."""
    try:
        found = object.__getattribute__(thing, "__dict__")
    except AttributeError:  # of a type with slots
        return None
    return found if type(found) is dict else None


def clipped(text: str) -> str:
    """The text, cut to at most TEXT_LENGTH characters."""
    return text if len(text) <= TEXT_LENGTH else f"{text[: TEXT_LENGTH - 1]}…"


UNCOMMITTED = "uncommitted"
"""The text for an argument that JAX may move to any device."""

ONE_DEVICE = "SingleDeviceSharding"
USUAL_MEMORY = (None, "device", "unpinned_host")
"""`unpinned_host` is what older versions call the memory of a CPU device."""


def device_text(device: Any) -> str:
    """Platform and number, such as `cpu:0`."""
    return f"{device.platform}:{device.id}"


def mesh_text(mesh: Any) -> str:
    """The mesh's axes, sizes and devices, as in `(data=4, model=2) on gpu:0 to 7`; explicit axes are marked."""
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
    in_a_row = len(numbers) > 1 and numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    which = f"{numbers[0]} to {numbers[-1]}" if in_a_row else ",".join(map(str, numbers))
    return clipped(f"({text}) on {devices[0].platform}:{which}")


def spec_text(spec: Any) -> str:
    """A partition spec, as in `P('data', None)`."""
    parts = [
        f"({', '.join(plain(name) for name in part)})" if type(part) is tuple else plain(part)
        for part in tuple(spec)
    ]
    return f"P({', '.join(parts)})"


def sharding_text(sharding: Any) -> str:
    """An argument's sharding: its partition over a mesh, its device, or that it is not committed to any device."""
    kind = type(sharding)
    if sharding is None:
        return UNCOMMITTED
    if not is_of(kind, "jax", "jaxlib"):
        return name_of(kind)
    if not hasattr(kind, "device_set"):
        return UNCOMMITTED
    where = _memory(sharding)
    spec = getattr(sharding, "spec", None)
    if spec is not None:
        return clipped(f"{spec_text(spec)} over {mesh_text(sharding.mesh)}{where}")
    devices = sharding.device_set
    if len(devices) == 1:
        return device_text(next(iter(devices))) + where
    return clipped(f"{kind.__name__} over {len(devices)} devices{where}")


def layout_text(sharding: Any) -> str:
    """The sharding in words that name no mesh or device: `one device`, `replicated over 8`, `P('data', None) over 8`.

    It groups arrays for counting: those on different devices may be laid out alike.
    """
    if type(sharding).__name__ == ONE_DEVICE:
        return f"one device{_memory(sharding)}"
    devices = int(sharding.num_devices)
    if bool(sharding.is_fully_replicated):
        text = f"replicated over {devices}" if devices > 1 else "one device"
    else:
        spec = getattr(sharding, "spec", None)
        text = f"{'sharded' if spec is None else spec_text(spec)} over {devices}"
    return text + _memory(sharding)


def _memory(sharding: Any) -> str:
    """The kind of memory if it is not the usual one."""
    kind = getattr(sharding, "memory_kind", None)
    return "" if kind in USUAL_MEMORY else f" in {kind}"


def committed_to(array: Any) -> str:
    """The sharding type an array is committed to, with its partition; empty if uncommitted, or no array of JAX's."""
    if not getattr(array, "_committed", False):
        return ""
    kind = type(array.sharding)
    spec = getattr(array.sharding, "spec", None) if is_of(kind, "jax", "jaxlib") else None
    if spec is None:
        return kind.__name__
    parts = tuple(spec)
    while parts and parts[-1] is None:  # P('data', None) is P('data')
        parts = parts[:-1]
    return f"{kind.__name__} {spec_text(parts)}"
