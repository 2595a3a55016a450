"""JAX's live arrays: whether one is computed, how many there are, and which lines of the program made them."""

from __future__ import annotations

import math
import sys
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import filterfalse
from operator import attrgetter, methodcaller
from pathlib import PurePath
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from jaxobs.jax_compat.memory import speaks_of_memory
from jaxobs.jax_compat.objects import ONE_DEVICE, layout_text
from jaxobs.jax_compat.runtime import own_packages
from jaxobs.model.source_files import is_installed
from jaxobs.plugin.guard import raised_by_signal_handler

# Asks an array whether the device has computed it, without waiting and without crashing the process.
#
# `is_ready()` of an array that the user has deleted (`array.delete()`) crashes the process (seen in JAX
# 0.6.2, 0.8.2 and 0.10.2; since 0.11.2, and of a donated one, it raises), and another thread may delete the
# array between a check for that and the call. So both are made within one call into C, during which no other
# thread gets the interpreter lock.


_IS_DELETED = methodcaller("is_deleted")
_IS_READY = methodcaller("is_ready")
_AWAIT = methodcaller("block_until_ready")


def is_askable(value: Any) -> bool:
    """Whether `value` is an array of JAX's own, with compiled methods: a method of a user's type is never called."""
    methods = (getattr(type(value), name, None) for name in ("is_deleted", "is_ready"))
    return all(callable(method) and not isinstance(method, FunctionType) for method in methods)


def is_ready(array: Any) -> bool:
    """Whether an array, or a weak reference to one, is computed. Raises RuntimeError if it was deleted or freed."""
    if type(array) is weakref.ref and (array := array()) is None:
        raise RuntimeError("the array has been let go of")
    for ready in map(_IS_READY, filterfalse(_IS_DELETED, (array,))):
        return bool(ready)
    raise RuntimeError("the array has been deleted")


def are_ready(arrays: list[Any]) -> bool:
    """Whether all of these are computed, but for those that were deleted."""
    return all(map(_IS_READY, filterfalse(_IS_DELETED, arrays)))


def is_deleted(reference: weakref.ref[Any]) -> bool:
    """Whether an askable array was deleted or donated; False if it was freed, because nothing refers to it any more."""
    array = reference()
    return array is not None and bool(array.is_deleted())


# Counts the live arrays: they are listed in one go and counted afterwards, and none is kept alive meanwhile.
#
# Listing is one call into JAX that holds the interpreter lock. The arrays' descriptions are read at once,
# still under the lock, so that the list of arrays can be dropped: an array that the job releases a moment
# later must free its memory then. Counting is Python, about 1 µs an array, and may be paused. It
# makes no container for each array, because those would bring Python's garbage collector to a full pass,
# which stops the job for longer than all of this.


_AVAL = attrgetter("aval")
_SHARDING = attrgetter("sharding")
_TRACEBACK = attrgetter("traceback")

ROWS_BETWEEN_PAUSES = 256
KEYS_BETWEEN_PAUSES = 16
"""Arrays counted, and kinds of arrays named with their lines, between two calls of `between`: some 0.3 ms each."""

Place = str | int
"""A sharding by its identity, as comparing two runs Python of JAX and of the user's axis names. All on one device in one
kind of memory are one, by their text: JAX makes one for each array."""

BITS = {"int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "float4_e2m1fn": 4}
"""Element types that XLA packs into less than a byte; NumPy gives each element a whole one."""

UNKNOWN_LINE = ""
"""Stands for the line of an array for which JAX has no traceback, or none with a frame outside JAX."""


class Listing(NamedTuple):
    """Abstract value, sharding and traceback of every live array of the default backend, in one order.

    `failed` counts the arrays left out because there was no memory for them; they would have taken `failed_bytes`.
    """

    avals: list[Any]
    shardings: list[Any]
    tracebacks: list[Any]
    failed_bytes: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Group:
    """Arrays of one shape, type and sharding: how many, and their bytes on this process's devices.

    `line` made most of these bytes; UNKNOWN_LINE where that is not known.
    """

    shape: str
    dtype: str
    sharding: str
    count: int
    bytes: int
    line: str


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the program and the live arrays that it made."""

    line: str
    count: int
    bytes: int


def list_arrays(*, without_failed: bool = False) -> Listing:
    """List the live arrays. A backend must exist. Holds the interpreter lock: 0.4 µs an array.

    `without_failed` leaves out arrays for which memory is known to have run out, which takes some 1 µs an array more.
    """
    import jax

    arrays = jax.live_arrays()  # type: ignore[no-untyped-call]
    failed: list[Any] = []
    if without_failed:
        there: list[Any] = []
        for array in arrays:
            (failed if memory_ran_out(array) else there).append(array)
        arrays = there
    return Listing(
        list(map(_AVAL, arrays)), list(map(_SHARDING, arrays)), list(map(_TRACEBACK, arrays)),
        sum(local_bytes(array.aval.shape, array.aval.dtype, array.sharding) for array in failed), len(failed),
    )  # fmt: skip


def memory_ran_out(array: Any) -> bool:
    """Whether an array is known to have failed for lack of memory. Does not wait for one that is being computed.

    `block_until_ready()` of a deleted array crashes the same versions as `is_ready()`, hence one call into C here too.
    JAX lets go of the lock within it, so that a `delete()` in that microsecond may still crash: one in a million tries
    (0.10.2).
    """
    try:
        next(map(_AWAIT, filter(_IS_READY, filterfalse(_IS_DELETED, (array,)))), None)
    except Exception as error:  # only its message is of interest
        if raised_by_signal_handler(error):
            raise
        return speaks_of_memory(str(error.args[0]) if error.args else "")
    return False


class Census:
    """Counts a listing; `groups` and `lines` give the counts, largest first. `between` is called now and then."""

    def __init__(self, listing: Listing, between: Callable[[], None] = lambda: None) -> None:
        self.count = len(listing.avals)
        self.bytes = 0
        self._by_kind: dict[tuple[str, str, str], dict[str, list[int]]] = {}
        self._by_line: dict[str, list[int]] = {}
        shardings: dict[Place, Any] = {}
        counts = _counted(listing, shardings, between)
        for position, ((shape, dtype, place, traceback), count) in enumerate(counts.items()):
            self._add(shape, dtype, shardings[place], traceback, count)
            if position % KEYS_BETWEEN_PAUSES == 0:
                between()

    def groups(self, most: int) -> list[Group]:
        groups = []
        for (shape, dtype, sharding), lines in self._by_kind.items():
            largest_line = max(lines, key=lambda line: lines[line][1])
            count, size = (sum(amounts[part] for amounts in lines.values()) for part in (0, 1))
            groups.append(Group(shape, dtype, sharding, count, size, largest_line))
        return sorted(groups, key=lambda group: (-group.bytes, -group.count, group.shape, group.dtype))[:most]

    def lines(self, most: int) -> list[Line]:
        """The lines that made the most bytes; all unknown lines count as one."""
        lines = [Line(line, count, size) for line, (count, size) in self._by_line.items()]
        return sorted(lines, key=lambda line: (-line.bytes, -line.count, line.line))[:most]

    def _add(self, shape: tuple[int, ...], dtype: Any, sharding: Any, traceback: Any, count: int) -> None:
        size = count * local_bytes(shape, dtype, sharding)
        line = line_of(traceback)
        kind = (str(shape), str(dtype), layout_text(sharding))
        lines = self._by_kind.setdefault(kind, {})
        for amounts in (lines.setdefault(line, [0, 0]), self._by_line.setdefault(line, [0, 0])):
            amounts[0] += count
            amounts[1] += size
        self.bytes += size


def _counted(
    listing: Listing, shardings: dict[Place, Any], between: Callable[[], None]
) -> dict[tuple[tuple[int, ...], Any, Place, Any], int]:
    """The number of arrays by shape, type, place and traceback. Adds a sharding of each place to `shardings`."""
    counts: dict[tuple[tuple[int, ...], Any, Place, Any], int] = {}
    places: dict[int, Place] = {}
    rows = zip(listing.avals, listing.shardings, listing.tracebacks, strict=True)
    for row, (aval, sharding, traceback) in enumerate(rows):
        if (place := places.get(id(sharding))) is None:
            on_one = type(sharding).__name__ == ONE_DEVICE
            place = places[id(sharding)] = layout_text(sharding) if on_one else id(sharding)
            shardings.setdefault(place, sharding)
        key = aval.shape, aval.dtype, place, traceback
        counts[key] = counts.get(key, 0) + 1
        if row % ROWS_BETWEEN_PAUSES == 0:
            between()
    return counts


def local_bytes(shape: tuple[int, ...], dtype: Any, sharding: Any) -> int:
    """Bytes of one such array on all devices of this process, without padding; each replica counts."""
    name = str(dtype)
    bits = BITS.get(name) or 8 * int(dtype.itemsize)
    devices = 1
    if type(sharding).__name__ != ONE_DEVICE:
        devices = len(sharding.addressable_devices)
        shape = sharding.shard_shape(shape)
    return devices * -(-math.prod(shape) * bits // 8)


def line_of(traceback: Any) -> str:
    """`folder/file.py:12 in function`: the innermost frame outside JAX and jaxobs."""
    return next((line for _, line in _frames(traceback)), UNKNOWN_LINE)


def users_line_of(traceback: Any) -> str:
    """The line of the innermost frame that is in no installed package, if there is one, as `line_of` writes it."""
    return next((line for file, line in _frames(traceback) if not is_installed(file)), line_of(traceback))


def _frames(traceback: Any) -> Iterator[tuple[str, str]]:
    """The file, and the line as text, of each frame outside JAX and jaxobs, the innermost first."""
    if traceback is None:
        return
    codes, instructions = traceback.raw_frames()
    packages = own_packages()
    for code, instruction in zip(codes, instructions, strict=True):
        if isinstance(code, CodeType) and not code.co_filename.startswith(packages):
            line = type(traceback).code_addr2line(code, instruction)
            file = "/".join(PurePath(code.co_filename).parts[-2:])
            yield code.co_filename, f"{file}:{line} in {code.co_name}"


def arrays_alive() -> int | None:
    """About how many arrays there are, deleted ones included: some twenty too many, and never too few.

    Every instance of a class made at run time holds a reference to the class, so the class's reference count gives
    their number without a look at any of them. None without the private name of the class of JAX's arrays.
    """
    array = getattr(sys.modules.get("jax._src.array"), "ArrayImpl", None)
    return sys.getrefcount(array) if isinstance(array, type) else None
