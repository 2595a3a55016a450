"""Splits a serialized XSpace and its planes by hand, so that only a few events are decoded at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from jaxobs.proto.wire_format import LENGTH, Field, FieldError, fields
from jaxobs.trace.errors import TraceError

_PLANES, _ERRORS, _WARNINGS, _HOSTNAMES = 1, 2, 3, 4
_NAME, _LINES, _EVENT_METADATA, _STAT_METADATA, _STATS = 2, 3, 4, 5, 6
_EVENTS: Final = 4 << 3 | LENGTH
CHUNK_BYTES: Final = 32 * 2**10
"""Events are decoded in parts of about this size: as messages they take about five times their bytes."""


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


@dataclass(slots=True)
class LineParts:
    """The parts of a serialized XLine: fields other than events, and chunks of several events."""

    own: list[memoryview] = field(default_factory=list)
    events: list[memoryview] = field(default_factory=list)


def split_space(data: memoryview) -> Space:
    """The planes and texts of a space; raises TraceError where the bytes are no space."""
    space = Space()
    texts = {_ERRORS: space.errors, _WARNINGS: space.warnings, _HOSTNAMES: space.hostnames}
    for number, part in _contents(data, "a trace"):
        if number == _PLANES:
            space.planes.append(part)
        elif number in texts:
            texts[number].append(str(part, "utf-8", "replace"))
    return space


def split_plane(data: memoryview) -> Plane:
    """The parts of a plane; raises TraceError where the bytes are no plane."""
    plane = Plane()
    lists = {
        _LINES: plane.lines,
        _EVENT_METADATA: plane.event_metadata,
        _STAT_METADATA: plane.stat_metadata,
        _STATS: plane.stats,
    }
    for number, part in _contents(data, "a plane"):
        if number == _NAME:
            plane.name = str(part, "utf-8", "replace")
        elif number in lists:
            lists[number].append(part)
    return plane


def split_line(data: memoryview) -> LineParts:
    """The parts of a line; raises TraceError where the bytes are no line."""
    parts = LineParts()
    first = last = 0
    for key, start, _, end in _fields(data, "a line"):
        if key != _EVENTS:
            parts.own.append(data[start:end])
        elif start == last > first and end - first <= CHUNK_BYTES:
            last = end
        else:
            if last > first:
                parts.events.append(data[first:last])
            first, last = start, end
    if last > first:
        parts.events.append(data[first:last])
    return parts


def _contents(data: memoryview, what: str) -> Iterator[tuple[int, memoryview]]:
    """The number and content of each length-delimited field; others are skipped."""
    for key, _, content, end in _fields(data, what):
        if key & 7 == LENGTH:
            yield key >> 3, data[content:end]


def _fields(data: memoryview, what: str) -> Iterator[Field]:
    try:
        yield from fields(data)
    except FieldError as error:
        copied = ", or copy the whole file" if "truncated" in str(error) else ""
        raise TraceError(f"{what} is {error}; record it again{copied}") from None
