"""Where the fields of a serialized message begin and end, found without decoding what is in them.

The encoding is that of Protocol Buffers, https://protobuf.dev/programming-guides/encoding: each field a key
(number and wire type), then a varint, 8 bytes, 4 bytes, or a length and so many bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

VARINT: Final = 0
EIGHT_BYTES: Final = 1
LENGTH: Final = 2
FOUR_BYTES: Final = 5
"""Wire types; 3 and 4, the groups of old, are refused."""

_VARINT_BYTES: Final = 10


class FieldError(ValueError):
    """Where the bytes are no field, and why."""


Field = tuple[int, int, int, int]
"""Key (8 times the field's number, plus its wire type), and where the field, its content and the next one begin."""


def fields(data: memoryview) -> Iterator[Field]:
    """The fields of a message, in order. Raises FieldError where the bytes go on with none."""
    at, size = 0, len(data)
    while at < size:
        start = at
        # By far the most keys and lengths take one byte or two: a call for each would double the time.
        key = data[at]
        at += 1
        if key >= 0x80:
            key, at = _varint(data, start)
        kind = key & 7
        if kind == LENGTH:
            length = data[at] if at < size else 0x80
            at += 1
            if length >= 0x80:
                length, at = _varint(data, at - 1)
            content, at = at, at + length
        elif kind == VARINT:
            content = at
            _, at = _varint(data, at)
        elif kind == EIGHT_BYTES:
            content, at = at, at + 8
        elif kind == FOUR_BYTES:
            content, at = at, at + 4
        else:
            raise FieldError(f"corrupted: byte {start} of {size} begins no field")
        if at > size:
            raise FieldError(
                f"truncated: the field at byte {start} ends {at - size} bytes after its {size} bytes"
            )
        yield key, start, content, at


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """A number and where it ends."""
    value = shift = 0
    for place in range(at, min(at + _VARINT_BYTES, len(data))):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place + 1
        shift += 7
    raise FieldError(f"truncated or corrupted: no number at byte {at} of {len(data)}")
