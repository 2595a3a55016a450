"""Reads the lines of a plane, decoding a few events at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from google.protobuf.message import DecodeError

from jaxobs.proto.xspace import LineMessage
from jaxobs.trace.errors import TraceError
from jaxobs.trace.protobuf_fields import Plane, split_line

_PICOSECONDS_A_NANOSECOND: Final = 1000


class Line:
    """A line's name, and its start in picoseconds; iterating gives its events. Raises TraceError for wrong bytes."""

    def __init__(self, plane: str, serialized: memoryview) -> None:
        self._plane = plane
        parts = split_line(serialized)
        self._parts = parts.events
        own = self._decoded(b"".join(map(bytes, parts.own)))
        self.name = str(own.name or own.display_name, "utf-8", "replace")
        self.base = own.timestamp_ns * _PICOSECONDS_A_NANOSECOND
        self.count = 0
        """The number of events iterated over."""

    def __iter__(self) -> Iterator[Any]:
        self.count = 0
        for part in self._parts:
            events = self._decoded(bytes(part)).events
            self.count += len(events)
            yield from events

    def _decoded(self, serialized: bytes) -> Any:
        try:
            return LineMessage.FromString(serialized)
        except DecodeError as error:
            raise TraceError(
                f"a line of plane {self._plane!r} is corrupted ({error}); record it again"
            ) from None


def lines_of(plane: Plane) -> Iterator[Line]:
    """The lines of a plane. Raises TraceError where one is corrupted."""
    for serialized in plane.lines:
        yield Line(plane.name, serialized)
