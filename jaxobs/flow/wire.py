"""Frames on the pipe between the training process and the agent.

A frame is one byte of kind, four bytes of length (big endian), and a body in `marshal` form: the fastest encoding of
plain tuples that Python has (3 500 events in about 0.5 ms, which is time that the job's interpreter lock is held).
Both ends are the same Python from the same installation, joined by a socket pair that nobody else can write to, which
is what makes marshal fit here: its format differs between versions and it must not read what a stranger wrote.
"""

from __future__ import annotations

import marshal
import struct
from collections.abc import Iterable, Iterator
from typing import Any

from jaxobs.model.events import EVENT_TYPES, Event

_HEADER = struct.Struct(">cI")
_NUMBERS = {event_type: number for number, event_type in enumerate(EVENT_TYPES)}

HELLO = b"H"  # job to agent, first: settings, resource, clock
EVENTS = b"E"  # job to agent: a list of (event type number, *fields)
REQUEST = b"Q"  # job to agent: (request number, what)
REPLY = b"R"  # agent to job: (request number, answer)
ADDRESS = b"A"  # agent to job: the URL an exporter serves at
LOG = b"L"  # agent to job: one line for the logger `jaxobs`
FINISH = b"F"  # job to agent: nothing follows; flush and end within so many seconds

MAXIMUM_BODY = 2**30


class WireError(ValueError):
    """Bytes on the pipe that are no frame of ours."""


def frame(kind: bytes, body: Any) -> bytes:
    """Raises ValueError where the body holds what marshal cannot take."""
    encoded = marshal.dumps(body)
    return _HEADER.pack(kind, len(encoded)) + encoded


def events_frame(events: Iterable[Event]) -> tuple[bytes, int]:
    """A frame of events, and how many were refused because a plugin put something into them that cannot travel."""
    rows = [(_NUMBERS[type(event)], *event) for event in events if type(event) in _NUMBERS]
    try:
        return frame(EVENTS, rows), 0
    except ValueError:
        sound = [row for row in rows if _encodable(row)]
        return frame(EVENTS, sound), len(rows) - len(sound)


def events_of(body: list[tuple[Any, ...]]) -> Iterator[Event]:
    """The events of a frame's body."""
    for number, *fields in body:
        yield EVENT_TYPES[number](*fields)  # the fields were those of this type


class Frames:
    """Puts frames together from whatever pieces a socket gives."""

    def __init__(self) -> None:
        self._pieces = bytearray()

    def feed(self, piece: bytes) -> Iterator[tuple[bytes, Any]]:
        """The frames that are now whole, as (kind, body). Raises WireError on bytes that are no frame."""
        self._pieces += piece
        while len(self._pieces) >= _HEADER.size:
            kind, length = _HEADER.unpack_from(self._pieces)
            if length > MAXIMUM_BODY:
                raise WireError(f"a frame of {length} bytes: more than {MAXIMUM_BODY}")
            end = _HEADER.size + length
            if len(self._pieces) < end:
                return
            with memoryview(self._pieces) as view, view[_HEADER.size : end] as body:
                try:
                    content = marshal.loads(body)  # noqa: S302  # written by our own other end, see above
                except (ValueError, EOFError, TypeError) as error:
                    raise WireError(f"a frame of kind {kind!r} whose body does not decode: {error}") from None
            del self._pieces[:end]
            yield kind, content


def _encodable(row: tuple[Any, ...]) -> bool:
    try:
        marshal.dumps(row)
    except ValueError:
        return False
    return True
