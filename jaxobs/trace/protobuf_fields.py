"""The fields of a serialized space and its planes, split by hand: only one line of events is decoded at a time.

The encoding is that of Protocol Buffers, https://protobuf.dev/programming-guides/encoding: each field a key
(number and wire type), then a varint, 8 bytes, 4 bytes, or a length and so many bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from jaxobs.trace.errors import TraceError

_VARINT, _EIGHT, _LENGTH, _FOUR = 0, 1, 2, 5
_PLANES, _ERRORS, _WARNINGS, _HOSTNAMES = 1, 2, 3, 4
_NAME, _LINES, _EVENT_METADATA, _STAT_METADATA, _STATS = 2, 3, 4, 5, 6
_EVENTS_OF_LINE: Final = 4
CHUNK_BYTES: Final = 8 * 2**20
"""A longer line is decoded in parts of about this size: decoded events take about five times their bytes."""


@dataclass(slots=True)
class Space:
    """The parts of a serialized XSpace."""

    planes: list[memoryview] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    hostnames: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Plane:
    """The parts of a serialized XPlane, undecoded but for its name."""

    name: str = ""
    lines: list[memoryview] = field(default_factory=list)
    event_metadata: list[memoryview] = field(default_factory=list)
    stat_metadata: list[memoryview] = field(default_factory=list)
    stats: list[memoryview] = field(default_factory=list)


def split_space(data: memoryview) -> Space:
    """The planes and texts of a space; raises TraceError where the bytes are none."""
    space = Space()
    texts = {_ERRORS: space.errors, _WARNINGS: space.warnings, _HOSTNAMES: space.hostnames}
    for number, part in _fields(data, "a trace"):
        if number == _PLANES:
            space.planes.append(part)
        elif number in texts:
            texts[number].append(str(part, "utf-8", "replace"))
    return space


def split_plane(data: memoryview) -> Plane:
    """The parts of a plane; raises TraceError where the bytes are none."""
    plane = Plane()
    lists = {
        _LINES: plane.lines,
        _EVENT_METADATA: plane.event_metadata,
        _STAT_METADATA: plane.stat_metadata,
        _STATS: plane.stats,
    }
    for number, part in _fields(data, "a plane"):
        if number == _NAME:
            plane.name = str(part, "utf-8", "replace")
        elif number in lists:
            lists[number].append(part)
    return plane


def chunks(line: memoryview) -> Iterator[memoryview | bytes]:
    """A line in parts that decode on their own: the first fields in each, the events one after another."""
    if len(line) <= CHUNK_BYTES:
        yield line
        return
    heads: list[tuple[int, int]] = []
    events: list[tuple[int, int]] = []
    size = 0
    parts: list[list[tuple[int, int]]] = [events]
    for number, start, end in _spans(line, "a line"):
        if number != _EVENTS_OF_LINE:
            heads.append((start, end))
            continue
        if size > CHUNK_BYTES:
            size, events = 0, []
            parts.append(events)
        size += end - start
        if events and events[-1][1] == start:
            events[-1] = (events[-1][0], end)
        else:
            events.append((start, end))
    for part in parts:
        yield b"".join(bytes(line[start:end]) for start, end in [*heads, *part])


def _fields(data: memoryview, what: str) -> Iterator[tuple[int, memoryview]]:
    """Number and content of each field with a length; others are passed over."""
    for number, start, end in _spans(data, what):
        if data[start] & 7 == _LENGTH:
            at = _after_varint(data, start, what)
            at = _after_varint(data, at, what)
            yield number, data[at:end]


def _spans(data: memoryview, what: str) -> Iterator[tuple[int, int, int]]:
    """Number, start and end of each field, its key included."""
    at, size = 0, len(data)
    while at < size:
        start = at
        key, at = _varint(data, at, what)
        kind = key & 7
        if kind == _LENGTH:
            length, at = _varint(data, at, what)
            at += length
        elif kind == _VARINT:
            at = _after_varint(data, at, what)
        elif kind == _EIGHT:
            at += 8
        elif kind == _FOUR:
            at += 4
        else:
            raise TraceError(f"{what} is corrupted: byte {start} of {size} begins no field; record it again")
        if at > size:
            raise TraceError(
                f"{what} is truncated: the field at byte {start} ends {at - size} bytes after its {size} bytes; "
                "record it again, or copy the whole file"
            )
        yield key >> 3, start, at


def _varint(data: memoryview, at: int, what: str) -> tuple[int, int]:
    value = shift = 0
    for place in range(at, min(at + 10, len(data))):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place + 1
        shift += 7
    raise TraceError(
        f"{what} is truncated or corrupted: no number at byte {at} of {len(data)}; record it again"
    )


def _after_varint(data: memoryview, at: int, what: str) -> int:
    return _varint(data, at, what)[1]
