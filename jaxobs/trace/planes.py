"""Reads the planes of a serialized XSpace: their tables, lines and events, decoding a line at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

from google.protobuf.message import DecodeError

from jaxobs.proto.messages import (
    EventMetadataEntryMessage,
    LineMessage,
    StatMessage,
    StatMetadataEntryMessage,
)
from jaxobs.proto.wire_format import LENGTH, FieldError, fields
from jaxobs.vocabulary import InputError


class TraceError(InputError, ValueError):
    """A trace that cannot be read: the message says what it is, what is wrong with it and what to do."""


PLANES, ERRORS, WARNINGS, HOSTNAMES = 1, 2, 3, 4
"""Fields of an XSpace."""
_NAME, _LINES, _EVENT_METADATA, _STAT_METADATA, _STATS = 2, 3, 4, 5, 6


def parts_of(data: memoryview, what: str) -> defaultdict[int, list[memoryview]]:
    """The contents of the length-delimited fields, by their numbers; raises TraceError where the bytes are no fields."""
    found: defaultdict[int, list[memoryview]] = defaultdict(list)
    try:
        for key, _, content, end in fields(data):
            if key & 7 == LENGTH:
                found[key >> 3].append(data[content:end])
    except FieldError as error:
        copied = ", or copy the whole file" if "truncated" in str(error) else ""
        raise TraceError(f"{what} is {error}; record it again{copied}") from None
    return found


def decoded(text: bytes | memoryview) -> str:
    """A text of a trace, which may be cut within a letter."""
    return str(text, "utf-8", "replace")


Value = int | float | str | bytes


@dataclass(frozen=True, slots=True)
class EventMetadata:
    """The names and statistics that all events of one kind share."""

    name: str
    display_name: str
    stats: Any


class Plane:
    """A serialized XPlane, whose tables are decoded when they are first asked for.

    Raises TraceError where the bytes are no plane, or a table is corrupted.
    """

    def __init__(self, data: memoryview) -> None:
        self._parts = parts_of(data, "a plane")
        self.name = decoded(self._parts[_NAME][-1]) if self._parts[_NAME] else ""
        self.lines = self._parts[_LINES]
        """Serialized: `lines_of` decodes them."""

    @cached_property
    def stat_names(self) -> dict[int, str]:
        entries = self._table(_STAT_METADATA, StatMetadataEntryMessage)
        return {entry.key: decoded(entry.value.name) for entry in entries}

    @cached_property
    def events(self) -> dict[int, EventMetadata]:
        entries = ((each.key, each.value) for each in self._table(_EVENT_METADATA, EventMetadataEntryMessage))
        return {
            key: EventMetadata(decoded(value.name), decoded(value.display_name), value.stats)
            for key, value in entries
        }

    @cached_property
    def stats(self) -> Mapping[str, Value]:
        return self.stats_of(self._table(_STATS, StatMessage))

    def _table(self, field: int, kind: Any) -> list[Any]:
        return [_parsed(kind, part, f"the tables of plane {self.name!r} are") for part in self._parts[field]]

    def read(self, stats: Iterable[bytes]) -> dict[str, Value]:
        """The statistics of an event, by name."""
        return self.stats_of(map(_decode, stats))

    def stats_of(self, stats: Iterable[Any]) -> dict[str, Value]:
        """Statistics by name; one whose name is not in the tables is left out."""
        found: dict[str, Value] = {}
        for stat in stats:
            name = self.stat_names.get(stat.metadata_id)
            if name is not None:
                found[name] = self.value(stat)
        return found

    def value(self, stat: Any) -> Value:
        """A statistic's value. References are resolved; an absent value is 0, which protobuf does not write."""
        if stat.ref_value:
            return self.stat_names.get(stat.ref_value, "")
        if stat.str_value:
            return decoded(stat.str_value)
        if stat.bytes_value:
            value: bytes = stat.bytes_value
            return value
        number: int | float = stat.double_value or stat.uint64_value or stat.int64_value
        return number


_PICOSECONDS_A_NANOSECOND: Final = 1000


class Line(NamedTuple):
    """A line of a plane, decoded."""

    name: str
    base: int
    """Its start in picoseconds."""
    events: Sequence[Any]


def lines_of(plane: Plane) -> Iterator[Line]:
    """The lines of a plane. Raises TraceError where one is corrupted."""
    for serialized in plane.lines:
        line = _parsed(LineMessage, serialized, f"a line of plane {plane.name!r} is")
        name = decoded(line.name or line.display_name)
        yield Line(name, line.timestamp_ns * _PICOSECONDS_A_NANOSECOND, line.events)


# Reads the statistics of events fast: their bytes repeat, so each is decoded once.
#
# The order and number of an event's statistics repeat too. A tuple of codes, one for each statistic, is
# therefore the key by which an event is classified: looking it up costs a third of decoding the statistics
# one by one.


MAX_KNOWN: Final = 200_000
"""Most statistics kept by their bytes. Where there are more they do not repeat, and are decoded when needed."""

_UNIQUE: Final = frozenset((
    "_p", "_c", "_pid", "correlation_id", "device_offset_ps", "device_duration_ps", "cuda_graph_node_id", "addr",
    "scope_range_id",
))  # fmt: skip
"""Statistics whose value differs from event to event."""


class EventStats:
    """The codes of the statistics in one plane, and what is known of events by them.

    `distinct` names those that tell events apart: each of their values has its own code. All others share one code, and
    those whose value is unique to an event have none.
    """

    def __init__(self, plane: Plane, distinct: Collection[str]) -> None:
        self._plane = plane
        self._distinct = distinct
        self._known: dict[bytes, int] = {}
        self.code = self._known.get
        self.entries: dict[tuple[int | None, ...], Any] = {}
        """By the metadata id and the codes of the statistics: the fast way to what `entry` returns."""

    def entry(self, metadata_id: int, stats: list[bytes], classify: Callable[[int, list[bytes]], Any]) -> Any:
        """What is known of events with this metadata id and these statistics, by `classify` if that is asked first."""
        for raw in stats:
            if raw in self._known:
                continue
            name = self._name(raw)
            if name in self._distinct:  # above the limit too, or events would be taken for each other
                self._known[bytes(raw)] = len(self._known) + 1
            elif name not in _UNIQUE and len(self._known) < MAX_KNOWN:
                self._known[bytes(raw)] = 0
        key = (metadata_id, *map(self.code, stats))
        if key not in self.entries:
            self.entries[key] = classify(metadata_id, stats)
        return self.entries[key]

    def position(self, stats: list[bytes], name: str) -> int:
        """The index of the statistic of this name; -1 where it is absent."""
        return next((at for at, raw in enumerate(stats) if self._name(raw) == name), -1)

    def _name(self, raw: bytes) -> str | None:
        return self._plane.stat_names.get(_decode(raw).metadata_id)


def payload(raw: bytes) -> bytes:
    """The encoded value of a statistic, which is equal for equal values, whatever the statistic's name."""
    at = 1  # after the key of the metadata id, which comes first
    while at < len(raw) and raw[at] >= 0x80:
        at += 1
    return raw[at + 1 :]


def _decode(raw: bytes) -> Any:
    return _parsed(StatMessage, raw, "an event's statistic is")


def _parsed(kind: Any, serialized: bytes | memoryview, what: str) -> Any:
    """The message of this kind. Raises TraceError, which begins with `what`, where it is corrupted."""
    try:
        return kind.FromString(bytes(serialized))
    except DecodeError as error:
        raise TraceError(f"{what} corrupted ({error}); record the trace again") from None
