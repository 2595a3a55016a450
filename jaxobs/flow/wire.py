"""Frames on the pipe between the training process and the agent.

A frame is one byte of kind, four bytes of length (big endian), and a body in `marshal` form: the fastest encoding of
plain tuples that Python has (3 500 events in about 0.5 ms, which is time that the job's interpreter lock is held).
Both ends are the same Python from the same installation, connected by a socket pair that no one else can write to. Only
so is marshal suitable: its format differs between versions, and it is not safe for input from strangers.
"""

from __future__ import annotations

import marshal
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from jaxobs.model.events import (
    EVENT_TYPES,
    ROW_LENGTH,
    Event,
    ExecutableCreated,
    Measured,
    ProfileWindow,
    SpanContext,
    StepRows,
)
from jaxobs.vocabulary.text import cut_name

_HEADER = struct.Struct(">cI")
_NUMBERS: dict[type, int] = {event_type: number for number, event_type in enumerate(EVENT_TYPES)}
_HAVE_PARENT = tuple(event_type._fields[-1] == "parent" for event_type in EVENT_TYPES)

HELLO = b"H"  # job to agent, first: settings, resource, clock
EVENTS = b"E"  # job to agent: a list of (event type number, *fields), and of lists that are rows of steps
REQUEST = b"Q"  # job to agent: (request number, the time by `now()` until which the answer is of use)
REPLY = b"R"  # agent to job: (request number, answer)
ADDRESS = b"A"  # agent to job: (URL of `/metrics`, file for a killed job's last summary), each may be None
LOG = b"L"  # agent to job: one line for the logger `jaxobs`
FOLDED = b"K"  # agent to job: the number of further frames of events that are folded
ENDING = b"D"  # job to agent: how it ends; what it has still to tell follows, if there is time for it
FINISH = b"F"  # job to agent: nothing follows; the most seconds that the job waits, and how it ends
LAST = b"Z"  # agent to job, before it closes the pipe: (the last snapshot, what exporters have not delivered, by name)
STARTED = b"S"  # agent to job, first: its process number
VALUES = b"V"  # job to agent: send the flat values from now on; agent to job: these values
PROFILE = b"P"  # agent to job: (seconds, keep) of a profiler window that is requested
STACKS = b"T"  # agent to job: take the stacks of your threads; the body is the one that must be among them
PAYLOAD = b"X"  # job to agent: a serialised module or trace, raw, of an event of the frame that follows

MAXIMUM_BODY = 2**30
"""More than the job lets wait (`jaxobs.probe.transport.backlog`)."""


class WireError(ValueError):
    """Bytes on the pipe that are no frame of ours."""


def frame(kind: bytes, body: Any) -> bytes:
    """Encode a frame. Raises ValueError where the body holds what marshal cannot encode."""
    encoded = marshal.dumps(body)
    return _HEADER.pack(kind, len(encoded)) + encoded


def events_frame(events: Sequence[Event | StepRows]) -> tuple[bytes, int]:
    """A frame of events, and how many were left out because a plugin put into them what cannot be encoded.

    Rows of steps can always be encoded: they hold only what the hot path notes.
    """
    rows = [row for event in events if (row := _row(event)) is not None]
    try:
        return frame(EVENTS, rows), len(events) - len(rows)
    except ValueError:
        sound = [row for row in rows if _encodable(row)]
        return frame(EVENTS, sound), len(events) - len(sound)


def count(events: Iterable[Event | StepRows]) -> int:
    """The number of events; a list counts as many steps as it has rows."""
    return sum(len(event) // ROW_LENGTH if type(event) is list else 1 for event in events)


def payloads_apart(events: Sequence[Event | StepRows]) -> tuple[list[Event | StepRows], list[bytes]]:
    """The events without modules and traces, and the bytes to write before them: for each of these a header and itself.

    Modules and traces have megabytes, and each copy would hold the interpreter lock. `b""` replaces them in the event.
    """
    travelling: list[Event | StepRows] = []
    pieces: list[bytes] = []
    for event in events:
        light, payload = payload_apart(event)
        # An event that will be left out must leave no payload behind: the next event would get it.
        if isinstance(payload, bytes) and (row := _row(light)) is not None and _encodable(row):
            pieces += [_HEADER.pack(PAYLOAD, len(payload)), payload]
            travelling.append(light)
        else:
            travelling.append(event)
    return travelling, pieces


def payload_apart(event: Event | StepRows) -> tuple[Event | StepRows, bytes | None]:
    """The event with `b""` in place of its module or trace, and that module or trace, None if there is none."""
    if isinstance(event, ProfileWindow):
        return event._replace(xspace=b""), event.xspace
    if isinstance(event, ExecutableCreated):
        return event._replace(proto=b""), event.proto
    return event, None


def events_of(body: list[tuple[Any, ...] | StepRows]) -> Iterator[Event | StepRows]:
    """Decode the events of a frame's body; steps stay rows. Raises WireError where it is no list of events."""
    try:
        for row in body:
            if isinstance(row, list):
                yield row
                continue
            number, *fields = row
            if _HAVE_PARENT[number] and isinstance(fields[-1], tuple) and len(fields[-1]) == 3:
                fields[-1] = SpanContext(*fields[-1])
            yield EVENT_TYPES[number](*fields)
    except (TypeError, ValueError, IndexError) as error:
        raise WireError(f"a frame of events that holds something else: {error}") from None


class Frames:
    """Puts frames together from the pieces that a socket receives."""

    def __init__(self) -> None:
        self._pieces = bytearray()

    def feed(self, piece: bytes) -> Iterator[tuple[bytes, Any]]:
        """Yield the frames that this piece completes, as (kind, body). Raises WireError on bytes that are no frame.

        The body of a payload is a memoryview, of which no copy is made.
        """
        self._pieces += piece
        while len(self._pieces) >= _HEADER.size:
            kind, length = _HEADER.unpack_from(self._pieces)
            if length > MAXIMUM_BODY:
                raise WireError(f"a frame of {length} bytes: more than {MAXIMUM_BODY}")
            end = _HEADER.size + length
            if len(self._pieces) < end:
                return
            if kind == PAYLOAD:
                whole, self._pieces = self._pieces, self._pieces[end:]
                yield PAYLOAD, memoryview(whole)[_HEADER.size : end]
                continue
            with memoryview(self._pieces) as view, view[_HEADER.size : end] as body:
                try:
                    content = marshal.loads(body)  # noqa: S302  # written by our own other end, see above
                except Exception as error:  # noqa: BLE001  # marshal raises many types on bytes it did not write
                    raise WireError(f"a frame of kind {kind!r} whose body does not decode: {error}") from None
            del self._pieces[:end]  # which moves nothing
            yield kind, content


def _row(event: Event | StepRows) -> tuple[Any, ...] | StepRows | None:
    """The event as a plain tuple, for marshal. `parent`, always the last field, is the one named tuple inside it."""
    if type(event) is list:
        return event
    number = _NUMBERS.get(type(event))
    if number is None:
        return None
    if type(event) is Measured:
        try:  # a NumPy scalar may be a float, but marshal would encode it as a buffer
            return (number, event.metric, _labels(event.labels), float(event.value), event.time)
        except (TypeError, ValueError, OverflowError):
            return None
    if type(event[-1]) is SpanContext:
        return (number, *event[:-1], tuple(event[-1]))
    return (number, *event)


def _labels(labels: Any) -> Any:
    """Labels of bounded length; what is no tuple of texts is refused by the agent, which says so."""
    if type(labels) is not tuple:
        return labels
    return tuple([cut_name(label) if type(label) is str else label for label in labels])


def _encodable(row: tuple[Any, ...] | StepRows) -> bool:
    try:
        marshal.dumps(row)
    except ValueError:
        return False
    return True
