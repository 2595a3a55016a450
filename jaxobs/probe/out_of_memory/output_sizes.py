"""The size of each output of an executable, from its serialized module: each output is an allocation of its own."""

from __future__ import annotations

import math
from collections.abc import Iterator

from jaxobs.proto.element_types import ELEMENT_TYPES
from jaxobs.proto.wire_format import LENGTH, VARINT, FieldError, fields, numbers

# Fields of openxla/xla, `xla/service/hlo.proto` and `xla/xla_data.proto`.
_PROGRAM_SHAPE = 4 << 3 | LENGTH
_RESULT = 2 << 3 | LENGTH
_ELEMENT_TYPE = 2 << 3 | VARINT
_DIMENSIONS = 3 << 3 | LENGTH
_PARTS = 4 << 3 | LENGTH

MAX_OUTPUTS = 100_000


def output_sizes(proto: bytes | None) -> tuple[int, ...]:
    """Bytes of each output on one device, without padding; empty where the module cannot be read."""
    try:
        return tuple(
            size
            for program in _parts(memoryview(proto or b""), _PROGRAM_SHAPE)
            for result in _parts(program, _RESULT)
            for size, _ in zip(_sizes(result), range(MAX_OUTPUTS), strict=False)
        )
    except (FieldError, RecursionError):
        return ()


def _sizes(shape: memoryview) -> Iterator[int]:
    parts = list(_parts(shape, _PARTS))
    if parts:
        for part in parts:
            yield from _sizes(part)
        return
    bits, dimensions = 0, []
    for key, _, content, end in fields(shape):
        if key == _ELEMENT_TYPE:
            (number,) = numbers(shape[content:end])
            bits = ELEMENT_TYPES[number].bits if number in ELEMENT_TYPES else 0
        elif key == _DIMENSIONS:
            dimensions = numbers(shape[content:end])
    yield math.prod(dimensions) * -(-bits // 8)


def _parts(message: memoryview, wanted: int) -> Iterator[memoryview]:
    return (message[content:end] for key, _, content, end in fields(message) if key == wanted)
