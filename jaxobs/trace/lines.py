"""The lines of a plane, decoded one part at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from google.protobuf.message import DecodeError

from jaxobs.trace.descriptors import LineMessage
from jaxobs.trace.errors import TraceError
from jaxobs.trace.protobuf_fields import Plane, chunks

_PICOSECONDS_A_NANOSECOND: Final = 1000


def decoded_lines(plane: Plane) -> Iterator[tuple[str, int, Any]]:
    """Name, start in picoseconds and events of each line; a long line comes in several parts. Raises TraceError."""
    for line in plane.lines:
        for part in chunks(line):
            try:
                message = LineMessage.FromString(bytes(part))
            except DecodeError as error:
                raise TraceError(
                    f"a line of plane {plane.name!r} is corrupted ({error}); record it again"
                ) from None
            name = str(message.name or message.display_name, "utf-8", "replace")
            yield name, message.timestamp_ns * _PICOSECONDS_A_NANOSECOND, message.events
