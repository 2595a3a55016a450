"""Shapes of HLO values: element type, dimensions, elements, and the bytes they take in device memory."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, Final

from google.protobuf.message import DecodeError

from jaxobs.cost_model.errors import HloDecodeError
from jaxobs.proto.element_types import ELEMENT_TYPES, TUPLE, ElementType, Kind
from jaxobs.proto.hlo import ShapeMessage

HOST_MEMORY_SPACE: Final = 5
"""Memory space of host buffers in layouts: openxla/xla, ``xla/layout.h``, ``Layout::kHostMemorySpace``."""
_BUFFER: Final = 34  # a mutable buffer: its value's shape is the one tuple shape
_LARGEST: Final = 1 << 62


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """An array (``parts`` empty) or a tuple of shapes; a token is an array without data."""

    type: ElementType
    dimensions: tuple[int, ...]
    elements: int
    element_bytes: float
    bytes: float
    """Bytes in device memory; those kept on the host or on the chip are not counted."""
    parts: tuple[Shape, ...]
    dynamic: bool

    @property
    def floating(self) -> bool:
        return self.type.kind is Kind.REAL or self.type.kind is Kind.COMPLEX

    def leaves(self) -> tuple[Shape, ...]:
        """The arrays of this shape, in order."""
        found, waiting = [], [self]
        while waiting:
            shape = waiting.pop()
            if shape.parts:
                waiting.extend(reversed(shape.parts))
            else:
                found.append(shape)
        return tuple(found)


def _element_bits(type_: ElementType, layout: Any) -> int:
    # Types under a byte are packed only where the layout says so.
    return layout.element_size_in_bits or -(-type_.bits // 8) * 8


def _in_device_memory(layout: Any) -> bool:
    # TPU layouts are tiled, and there other memory spaces than 0 are on the chip. GPUs use space 1 for
    # collective buffers, which is device memory like any other.
    if layout.memory_space == HOST_MEMORY_SPACE:
        return False
    return not (layout.memory_space and layout.tiles)


def _read(message: Any) -> Shape:
    number = message.element_type
    if number in (TUPLE, _BUFFER):
        parts = tuple(_read(part) for part in message.tuple_shapes)
        return Shape(
            ELEMENT_TYPES[TUPLE],
            (),
            sum(part.elements for part in parts),
            0.0,
            sum(part.bytes for part in parts),
            parts,
            any(part.dynamic for part in parts),
        )
    type_ = ELEMENT_TYPES.get(number)
    if type_ is None:
        raise HloDecodeError(f"shape with element type {number}, which is none that XLA defines")
    dimensions = tuple(message.dimensions)
    if dimensions and min(dimensions) < 0:
        raise HloDecodeError(f"shape with a negative dimension: {list(dimensions)}")
    elements = prod(dimensions) if type_.kind is not Kind.NO_DATA else 0
    if elements > _LARGEST:
        raise HloDecodeError(f"shape with more than 2**62 elements: {list(dimensions)}")
    element_bytes = _element_bits(type_, message.layout) / 8
    if not 0 <= element_bytes <= 64:
        raise HloDecodeError(f"shape with elements of {element_bytes} bytes")
    in_memory = elements * element_bytes if _in_device_memory(message.layout) else 0.0
    dynamic = any(message.is_dynamic_dimension)
    return Shape(type_, dimensions, elements, element_bytes, in_memory, (), dynamic)


class ShapeTable:
    """Shapes by their serialized form: a module repeats few shapes many times."""

    def __init__(self) -> None:
        self._known: dict[bytes, Shape] = {}

    def read(self, serialized: bytes) -> Shape:
        """The shape with this serialized form; raises ``HloDecodeError``."""
        shape = self._known.get(serialized)
        if shape is None:
            try:
                shape = _read(ShapeMessage.FromString(serialized))
            except DecodeError as error:
                raise HloDecodeError(f"a shape cannot be read: {error}") from None
            self._known[serialized] = shape
        return shape
