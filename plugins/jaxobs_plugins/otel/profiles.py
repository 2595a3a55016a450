"""Converts device time by call path to OTLP profiles: for each profiler window what it added, by kind of value.

The signal is under development in OpenTelemetry, and its form may change with any version
(https://github.com/open-telemetry/opentelemetry-proto, ``profiles/v1development/profiles.proto``): it is sent only where
its own variable names an endpoint.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Collection, Sequence
from operator import sub
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2 import (
    ExportProfilesServiceRequest,
    ExportProfilesServiceResponse,
)

from jaxobs.model.clock import NANOSECONDS, now
from jaxobs.plugin.protocol import Agent, Batch
from jaxobs.report.flame_graph import ITSELF, leaves, name_of, part_of
from jaxobs.report.tables import Row
from jaxobs.vocabulary.text import valid_text
from jaxobs_plugins.otel.encoding import Signal, resource, scope

if TYPE_CHECKING:
    from google.protobuf.message import Message

INTERVAL: Final = 5.0
"""Seconds from request to request; windows are ten and more apart."""
CAPACITY: Final = 100
"""Most windows that wait: a quarter of an hour of a receiver that does not answer, where windows are frequent."""
KINDS: Final = (("device_time", "nanoseconds"), ("flops", "count"), ("bytes", "bytes"))
_MAX_VALUE: Final = 2**63 - 1

Values = tuple[float, ...]
"""One of each of KINDS; 0 where it is not known, as such samples are left out."""
Frame = tuple[str, str, int]
"""Name, file, line."""
Place = tuple[tuple[Frame, ...], str]
"""A call path, outermost first, and the part of automatic differentiation there, or no text."""


class Window(NamedTuple):
    """What came with the windows from `start` to `end`, in monotonic nanoseconds."""

    start: int
    end: int
    added: dict[Place, Values]


class ProfileSignal(Signal):
    """The signal of profiles. The oldest are dropped if more than CAPACITY windows wait."""

    name, item_name = "profiles", "profiles"

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent, INTERVAL)
        self._items = deque(maxlen=CAPACITY)
        self._start = now()
        self._busy = 0.0
        self._sums: dict[Place, Values] = {}
        """Of all windows that were seen."""

    def offer(self, batch: Batch) -> int:
        tree = (batch.snapshot.document.get("device_time") or {}).get("by_line", ())
        busy = sum(row["seconds"] for row in tree if not row["depth"])
        if busy == self._busy:  # no window since
            return 0
        sums, none = {_place(path): _values(path[-1]) for path in leaves(tree)}, (0.0,) * len(KINDS)
        # A small path may be told below `(other)` from now on, or no more: what one had then leaves it, and all adds up.
        added = {
            place: tuple(map(sub, sums.get(place, none), self._sums.get(place, none)))
            for place in {**self._sums, **sums}
        }
        dropped = len(KINDS) * (len(self._items) == CAPACITY)
        with self._lock:
            self._items.append(Window(self._start, batch.snapshot.time, added))
        self._busy, self._sums, self._start = busy, sums, batch.snapshot.time
        return dropped

    def encode(self, items: tuple[Window, ...]) -> Message:
        message = ExportProfilesServiceRequest()
        tables = _Tables(message.dictionary)
        of = message.resource_profiles.add()
        for name, value in resource(self._agent.resource).attributes.items():
            kind = "int_value" if isinstance(value, int) else "string_value"
            of.resource.attributes.add(key=name, value={kind: value})
        scoped = of.scope_profiles.add(scope={"name": scope().name, "version": scope().version})
        for window in items:
            start, end = map(self._agent.clock.wall_time, (window.start, window.end))
            for number, (kind, unit) in enumerate(KINDS):
                profile = scoped.profiles.add(
                    sample_type={"type_strindex": tables.text(kind), "unit_strindex": tables.text(unit)},
                    profile_id=os.urandom(16),
                    time_unix_nano=start,
                    duration_nano=max(0, end - start),
                )
                for path, values in window.added.items():
                    if value := min(round(values[number]), _MAX_VALUE):
                        profile.samples.add(values=[value], **tables.sample(path))
        return message

    def rejected(self, answer: bytes) -> int:
        return int(ExportProfilesServiceResponse.FromString(answer).partial_success.rejected_profiles)

    def size(self, items: Collection[Window]) -> int:
        return len(KINDS) * len(items)


def _place(path: Sequence[Row]) -> Place:
    """What a line does itself is that line's, also once it is seen to call others."""
    part = part_of(path)
    calls = path if part is None else path[:-1]
    frames = tuple((row["name"] or name_of(row), row["file"], row["line"]) for row in calls)
    return frames, part if part and part != ITSELF else ""


def _values(leaf: Row) -> Values:
    return leaf["seconds"] * NANOSECONDS, leaf["flops"] or 0.0, leaf["bytes"] or 0.0


class _Tables:
    """What samples refer to by number. Number 0 of each table is its empty entry."""

    def __init__(self, dictionary: Any) -> None:
        self._dictionary = dictionary
        self._texts = {"": 0}
        self._numbers: dict[tuple[str, str], int] = {}
        dictionary.string_table.append("")
        for table in ("mapping", "location", "function", "link", "attribute", "stack"):
            getattr(dictionary, f"{table}_table").add()

    def text(self, value: object) -> int:
        text = valid_text(str(value))
        if text not in self._texts:
            self._texts[text] = len(self._texts)
            self._dictionary.string_table.append(text)
        return self._texts[text]

    def sample(self, place: Place) -> dict[str, Any]:
        """The fields of a sample that say where it was; the part of automatic differentiation is an attribute."""
        calls, part = place
        stack = self._entry("stack", location_indices=[self._location(*frame) for frame in reversed(calls)])
        if not part:
            return {"stack_index": stack}
        label = self._entry("attribute", key_strindex=self.text("part"), value={"string_value": part})
        return {"stack_index": stack, "attribute_indices": [label]}

    def _location(self, name: str, file: str, line: int) -> int:
        function = self._entry("function", name_strindex=self.text(name), filename_strindex=self.text(file))
        return self._entry("location", lines=[{"function_index": function, "line": line}])

    def _entry(self, table: str, **fields: Any) -> int:
        entries = getattr(self._dictionary, f"{table}_table")
        number = self._numbers.setdefault((table, repr(fields)), len(entries))
        if number == len(entries):
            entries.add(**fields)
        return number
