"""Converts device time and the main thread's by call path to OTLP profiles: one for what has come since the last.

The signal is under development in OpenTelemetry, and its form may change with any version
(https://github.com/open-telemetry/opentelemetry-proto, ``profiles/v1development/profiles.proto``): it is sent only where
its own variable names an endpoint.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2 import (
    ExportProfilesServiceRequest,
    ExportProfilesServiceResponse,
)

from jaxobs.model.clock import NANOSECONDS, now
from jaxobs.model.cost import ITSELF, OTHER_CALLS, Frame
from jaxobs.plugin.protocol import Agent, Batch
from jaxobs.report.flame_graph import PARTS, host_time, name_of, operations_of
from jaxobs.report.tables import Row
from jaxobs.vocabulary.text import valid_text
from jaxobs_plugins.otel.encoding import SCOPE, Signal, resource

if TYPE_CHECKING:
    from google.protobuf.message import Message

INTERVAL: Final = 5.0
"""Seconds from request to request; profiler windows are ten and more apart."""
HOST_INTERVAL: Final = 10.0
"""Seconds from one profile of the main thread to the next, whose samples come all the time; the last is shorter."""
CAPACITY: Final = 100
"""Most profiles that wait."""

Path = tuple[Frame, ...]
"""Outermost first. The last frame may be a part of automatic differentiation."""
Seconds = dict[tuple[Path, str], float]
"""By path and operation; an empty name stands for those of the path that are not told one by one."""


class Window(NamedTuple):
    """What came from `start` to `end`, in monotonic nanoseconds: seconds of each path itself."""

    kind: str
    identity: bytes
    start: int
    end: int
    seconds: Seconds


class Growth:
    """A tree of calls whose seconds grow, and what was new each time."""

    def __init__(self) -> None:
        self.start = now()
        """Until when all is told."""
        self._whole: dict[Path, float] = {(): 0.0}
        """Seconds of each path with all below it."""
        self._operations: Seconds = {}
        """Seconds of the operations that were told."""
        self._all_are_told = True

    def added(self, tree: Sequence[Row], end: int) -> Seconds:
        """The seconds of each path itself that are new at `end`; empty if there are none.

        They are what it and all below it added, less what those below it did. A small path may be told below OTHER_CALLS
        in one tree and by itself in the next: what it added is then its caller's, as nobody knows how much of its time is
        new. So it is with an operation and its path.
        """
        whole = _whole(tree)
        if whole[()] == self._whole[()]:
            return {}
        operations = _operations(tree)
        added: defaultdict[tuple[Path, str], float] = defaultdict(float)
        for path, seconds in whole.items():
            if path in self._whole or self._all_are_told:
                more = seconds - self._whole.get(path, 0.0)
                added[path, ""] += more
                if path:
                    added[path[:-1], ""] -= more
        for (path, name), seconds in operations.items():
            if (path, name) in self._operations or path not in self._whole:
                more = max(0.0, min(seconds - self._operations.get((path, name), 0.0), added[path, ""]))
                added[path, name] = more
                added[path, ""] -= more
        self._whole, self._operations, self.start = whole, operations, end
        self._all_are_told = not any(row["name"] == OTHER_CALLS.function for row in tree)
        return dict(added)


class ProfileSignal(Signal):
    """The signal of profiles."""

    name, item_name, response = "profiles", "profiles", ExportProfilesServiceResponse

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent, INTERVAL, CAPACITY)
        self._trees = {"device_time": Growth(), "host_time": Growth()}

    def offer(self, batch: Batch) -> int:
        document, end = batch.snapshot.document, batch.snapshot.time
        trees = {"device_time": (document.get("device_time") or {}).get("by_line", ())}
        is_last = (document.get("process") or {}).get("ended") is not None
        if is_last or end - self._trees["host_time"].start >= HOST_INTERVAL * NANOSECONDS:
            trees["host_time"] = host_time(document)
        windows = []
        for kind, tree in trees.items():
            start = self._trees[kind].start
            if seconds := self._trees[kind].added(tree, end):
                windows.append(Window(kind, os.urandom(16), start, end, seconds))
        return self.add(windows)

    def encode(self, items: tuple[Window, ...]) -> Message:
        message = ExportProfilesServiceRequest()
        tables = _Tables(message.dictionary)
        of = message.resource_profiles.add()
        for name, value in resource(self._agent.resource).attributes.items():
            kind = "int_value" if isinstance(value, int) else "string_value"
            of.resource.attributes.add(key=name, value={kind: value})
        scoped = of.scope_profiles.add(scope={"name": SCOPE.name, "version": SCOPE.version})
        for window in items:
            start, end = map(self._agent.clock.wall_time, (window.start, window.end))
            profile = scoped.profiles.add(
                sample_type={
                    "type_strindex": tables.text(window.kind), "unit_strindex": tables.text("nanoseconds"),
                },
                profile_id=window.identity, time_unix_nano=start, duration_nano=max(0, end - start),
            )  # fmt: skip
            for where, seconds in window.seconds.items():
                if (value := round(seconds * NANOSECONDS)) > 0:
                    profile.samples.add(values=[value], **tables.sample(*where))
        return message


def _whole(tree: Sequence[Row]) -> dict[Path, float]:
    """Seconds of each path with all below it; that of no frames is all. What is no path of its own is left out."""
    whole: dict[Path, float] = {(): sum((row["seconds"] for row in tree if not row["depth"]), 0.0)}
    for row, path in _paths(tree):
        if row["name"] not in (OTHER_CALLS.function, ITSELF.function):
            whole[path] = row["seconds"]
    return whole


def _operations(tree: Sequence[Row]) -> Seconds:
    """Seconds of the operations that are told of each path; of those of OTHER_CALLS nobody knows the path."""
    found: defaultdict[tuple[Path, str], float] = defaultdict(float)
    for row, path in _paths(tree):
        if row["name"] != OTHER_CALLS.function:
            for operation in operations_of(row):
                of = path[:-1] if row["name"] == ITSELF.function else path
                found[of, operation["name"]] += operation["seconds"]
    return dict(found)


def _paths(tree: Sequence[Row]) -> Iterator[tuple[Row, Path]]:
    path: Path = ()
    for row in tree:
        path = (*path[: row["depth"]], Frame(row["name"] or name_of(row), row["file"], row["line"]))
        yield row, path


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

    def sample(self, path: Path, operation: str) -> dict[str, Any]:
        """The fields of a sample that say where it was; the part of automatic differentiation is an attribute."""
        part = PARTS.get(path[-1].function) if len(path) > 1 else None
        calls = (path if part is None else path[:-1]) or (OTHER_CALLS,)
        frames = (Frame(operation, "", 0), *reversed(calls)) if operation else reversed(calls)
        stack = self._entry("stack", location_indices=[self._location(*frame) for frame in frames])
        if part is None:
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
