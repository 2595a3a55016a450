"""Reads a plane's tables: names of events and statistics, and the statistics of the plane itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError

from jaxobs.proto.xspace import EventMetadataEntryMessage, StatMessage, StatMetadataEntryMessage
from jaxobs.trace.errors import TraceError
from jaxobs.trace.protobuf_fields import Plane

Value = int | float | str | bytes


@dataclass(frozen=True, slots=True)
class EventMetadata:
    """The names and statistics that all events of one kind share."""

    name: str
    display_name: str
    stats: Any


class PlaneMetadata:
    """The decoded tables of one plane. Raises TraceError where they are corrupted."""

    def __init__(self, plane: Plane) -> None:
        self.name = plane.name
        try:
            named = [StatMetadataEntryMessage.FromString(bytes(entry)) for entry in plane.stat_metadata]
            events = [EventMetadataEntryMessage.FromString(bytes(entry)) for entry in plane.event_metadata]
            own = [StatMessage.FromString(bytes(stat)) for stat in plane.stats]
        except DecodeError as error:
            raise TraceError(
                f"the tables of plane {plane.name!r} are corrupted ({error}); record it again"
            ) from None
        self.stat_names: dict[int, str] = {
            entry.key: str(entry.value.name, "utf-8", "replace") for entry in named
        }
        self.events: dict[int, EventMetadata] = {
            entry.key: EventMetadata(
                str(entry.value.name, "utf-8", "replace"),
                str(entry.value.display_name, "utf-8", "replace"),
                entry.value.stats,
            )
            for entry in events
        }
        self.stats: Mapping[str, Value] = self.stats_of(own)

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
            return str(stat.str_value, "utf-8", "replace")
        if stat.bytes_value:
            value: bytes = stat.bytes_value
            return value
        number: int | float = stat.double_value or stat.uint64_value or stat.int64_value
        return number
